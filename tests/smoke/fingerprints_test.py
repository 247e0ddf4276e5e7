"""Tests of the fingerprints: what changes them and what does not, on kernels compiled here (where there is nvcc)."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import cpp_code  # noqa: E402
import fingerprints  # noqa: E402
import machine_code  # noqa: E402
import python_code  # noqa: E402

NVCC = os.environ.get("CUDACXX") or shutil.which("nvcc", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
# Constants, a jump table, a string, a call that stays one, static shared memory; twin_kernel bears on all others' places.
KERNELS = r"""
namespace {
__constant__ float scale[2] = {2.0f, 3.0f};
__global__ void switch_kernel(float* values, int what) {
  __shared__ float staged[32];
  staged[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  float result = scale[what & 1];
  switch (what) {
    case 0: result += sqrtf(staged[1]); break;
    case 1: result *= staged[2]; break;
    case 2: result = sinf(staged[3]); break;
    case 3: result -= 4.0f; break;
    case 4: result = exp2f(staged[4]); break;
    case 5: result /= staged[5]; break;
    case 6: result = -result; break;
    default: printf("no such case\n");
  }
  values[threadIdx.x] = result;
}
}
template <int N> __global__ void twin_kernel(int* values) { values[threadIdx.x] = N; }
template __global__ void twin_kernel<5>(int*);
void use(float* values) { switch_kernel<<<1, 32>>>(values, 3); }
"""


def kernels(place, text, *flags):
    """{name: hash} of a source at that path, compiled there."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / place
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text("#include <cstdio>\n" + text)
        command = [NVCC, "-arch=sm_90a", "-std=c++20", *flags, "-c", str(source), "-o", str(source) + ".o"]
        subprocess.run(command, check=True, capture_output=True)
        return dict(machine_code.kernels_of(str(source) + ".o").values())


@unittest.skipUnless(NVCC, "needs nvcc")
class MachineCode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hashes = kernels("kernels.cu", KERNELS, "-lineinfo")

    def test_names(self):
        self.assertEqual(sorted(self.hashes), ["(anonymous namespace)::switch_kernel", "twin_kernel<5>"])

    def test_place_name_comments_and_lines_do_not_matter(self):
        text = "// A kernel.\n\n\n" + KERNELS.replace("case 3:", "case 3:  // subtract\n")
        self.assertEqual(kernels("some/other/folder/renamed.cu", text, "-lineinfo"), self.hashes)
        self.assertEqual(kernels("kernels.cu", KERNELS, "-Xfatbin", "-compress-all"), self.hashes)

    def test_changes_show_in_the_kernel_that_they_are_in(self):
        switch = next(name for name in self.hashes if "switch" in name)
        for old, new in (("-= 4.0f", "-= 5.0f"), ("{2.0f, 3.0f}", "{2.0f, 3.5f}"), ("staged[32]", "staged[64]")):
            with self.subTest(f"{old} to {new}"):
                changed = kernels("kernels.cu", KERNELS.replace(old, new), "-lineinfo")
                self.assertEqual(sorted(changed), sorted(self.hashes))
                self.assertNotEqual(changed[switch], self.hashes[switch])
                if "2.0f" not in old:  # a file's constants count for all of its kernels
                    self.assertEqual({**changed, switch: ""}, {**self.hashes, switch: ""})


class Symbols(unittest.TestCase):
    def test_tags_of_files_go(self):
        tagged = "_ZN6xstage4cuda48_GLOBAL__N__9f83cac5_15_burst_kernel_cu_e7e93acd12burst_kernelILi3EEEvi"
        plain = "_ZN6xstage4cuda12_GLOBAL__N_112burst_kernelILi3EEEvi"
        self.assertEqual(machine_code.without_file_tags(tagged), plain)
        self.assertEqual(machine_code.without_file_tags(plain), plain)
        moved = "_ZN6xstage4cuda40_GLOBAL__N__00000000_8_burst_cu_00000000" + tagged.split("_e7e93acd")[1]
        self.assertEqual(machine_code.without_file_tags(moved), plain)

    def test_name_before_the_tag_may_end_with_a_digit(self):
        tagged = "_ZN3sm948_GLOBAL__N__9f83cac5_15_burst_kernel_cu_e7e93acd1fEv"
        self.assertEqual(machine_code.without_file_tags(tagged), "_ZN3sm912_GLOBAL__N_11fEv")

    def test_numbered_helpers(self):
        self.assertEqual(machine_code.without_file_tags("$__internal_3_$__cuda_sm20_rem_u64"), "$__internal_$__cuda_sm20_rem_u64")

    def test_what_is_no_object(self):
        with self.assertRaisesRegex(ValueError, "ELF"):
            machine_code.sections_of(b"!<arch>\n")
        with self.assertRaisesRegex(ValueError, "no fat binary at byte 0"):
            list(machine_code.cubins_of(bytes(64)))


class Tokens(unittest.TestCase):
    def test_cpp(self):
        code = 'f(a, b);  // old\n#define X 1\nauto text = "// none";\n'
        laid_out = '/* new */ f(a,\n  b);\n#define X  1 // one\nauto text =\n    "// none";'
        self.assertEqual(cpp_code.code_of(laid_out), cpp_code.code_of(code))
        for old, new in (("a, b", "a b"), ("X 1\n", "X 2\n"), ("// none", "//none"), ("f(", "f(f("), ("#define", "# undef")):
            with self.subTest(f"{old!r} to {new!r}"):
                self.assertNotEqual(cpp_code.code_of(code.replace(old, new)), cpp_code.code_of(code))

    def test_python(self):
        code = 'def f(a):\n    """Adds."""\n    if a:\n        g("# no comment")\n    return {1: f"{a}"}\n'
        laid_out = 'def f(\n    a):  # one\n\n    \'\'\'Adds\n\n    up.\'\'\'\n    if a:\n\n        g("# no comment")\n    return {\n1:\n f"{a}" \\\n}'
        self.assertEqual(python_code.code_of(laid_out), python_code.code_of(code))
        for old, new in (("    return", "        return"), ("# no", "no"), ("{a}", "{b}"), ("if a", "if not a"), ("1:", "2:")):
            with self.subTest(f"{old!r} to {new!r}"):
                self.assertNotEqual(python_code.code_of(code.replace(old, new)), python_code.code_of(code))

    def test_python_modules(self):
        text = "import common\nfrom other.part import a\nimport numpy  # noqa\n    import inner\nimportant = 1\n"
        self.assertEqual(python_code.imported_modules(text), {"common", "other", "numpy", "inner"})


class Rows(unittest.TestCase):
    def test_hash_is_that_of_the_tool(self):
        # tests/unit/bench_code_record_test.cpp holds the tool to the same value.
        rows = [{"variant": "fused", "microseconds": 3.25, "trials": 7, "\u00fc": [None, True]}]
        self.assertEqual(fingerprints.rows_hash(rows), "054c105282c1cdb9")
        self.assertEqual(fingerprints.rows_hash([dict(reversed(rows[0].items()), trials=7.0)]), "054c105282c1cdb9")


if __name__ == "__main__":
    unittest.main()
