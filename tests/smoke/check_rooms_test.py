"""scripts/check_rooms.py: each rule between rooms, kept and broken."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import check_rooms  # noqa: E402

KEPT = [
    ("src/ops/gemm/plan.cpp", "fabric/signals.hpp"),
    ("src/ops/gemm/layout.hpp", "ops/gemm/device/layout.hpp"),
    ("src/ops/gemm/device/gemm.cu", "ops/gemm/schedule.hpp"),
    ("src/ops/gemm/device/gemm.cu", "tile/main_loop.cuh"),
    ("src/ops/gemm/bench/cells.cpp", "bench/statistics.hpp"),
    ("src/ops/ulysses/bench/cells.hpp", "ops/gemm/bench/cells.hpp"),
    ("src/ops/gemm/test/plan_test.cpp", "ops/gemm/bench/cells.hpp"),
    ("src/ops/gemm/test/gpu/gemm_test.cpp", "gpu/rank_support.hpp"),
    ("tests/gpu/handles_test.cpp", "ops/gemm/test/gpu/support.hpp"),
    ("src/cli/bench.cpp", "ops/gemm/bench/cells.hpp"),
    ("src/cli/audit.cpp", "audit/regime_audit.hpp"),
    ("src/node/cuda/cuda_node.cpp", "device/device_memory.hpp"),
    ("src/tile/epilogue.cuh", "xstage/error.hpp"),
    ("include/xstage/gemm.hpp", "xstage/plan.hpp"),
]
BROKEN = [
    ("src/fabric/signals.cuh", "ops/gemm/device/layout.hpp", "lies above"),
    ("src/model/platform.cpp", "files/csv.hpp", "lies above"),
    ("src/ops/moe/device/grouped.cuh", "ops/gemm/device/layout.hpp", "includes operator gemm"),
    ("src/ops/gemm/plan.cpp", "ops/gemm/device/gemm.hpp", "its kernels"),
    ("src/ops/gemm/plan.cpp", "ops/gemm/bench/cells.hpp", "lies above"),
    ("src/ops/gemm/device/gemm.cu", "ops/gemm/bench/cells.hpp", "lies above"),
    ("src/ops/gemm/device/gemm.cu", "bench/statistics.hpp", "lies above"),
    ("src/ops/gemm/bench/cells.cpp", "ops/gemm/test/world.hpp", "lies above"),
    ("src/ops/attention/test/gpu/support.hpp", "ops/gemm/test/gpu/support.hpp", "includes operator gemm"),
    ("src/bench/harness.cpp", "ops/gemm/bench/cells.hpp", "lies above"),
    ("src/cli/audit.cpp", "ops/gemm/bench/cells.hpp", "only the verb bench"),
    ("src/attic/gemm.cpp", "base/host_device.hpp", "no place"),
    ("include/xstage/gemm.hpp", "ops/gemm/layout.hpp", "public"),
]


class Rooms(unittest.TestCase):
    def complaints(self, path, included):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / path
            file.parent.mkdir(parents=True)
            file.write_text(f'#pragma once\n#include <vector>\n#include "{included}"\n')
            return check_rooms.check(pathlib.Path(folder))

    def test_what_the_rules_allow(self):
        for path, included in KEPT:
            with self.subTest(path=path, included=included):
                self.assertEqual(self.complaints(path, included), [])

    def test_what_they_forbid_is_named_with_its_rule(self):
        for path, included, rule in BROKEN:
            with self.subTest(path=path, included=included):
                found = self.complaints(path, included)
                self.assertEqual(len(found), 1)
                self.assertIn(path.split("/")[-1], found[0])
                self.assertIn(included, found[0])
                self.assertIn(rule, found[0])


if __name__ == "__main__":
    unittest.main()
