"""Tests of scripts/check_ptxas.py and scripts/capture_ptxas.py on reports in ptxas's own wording (CUDA 12 and 13)."""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
import check_ptxas  # noqa: E402

SYMBOL = "_ZN6xstage4cuda48_GLOBAL__N__9f83cac5_15_burst_kernel_cu_e7e93acd12burst_kernelILNS_9StorePathE3EEEvNS0_15BurstParametersE"


def report(symbol=SYMBOL, architecture="sm_90", registers=48, frame=0, stores=0, loads=0):
    """ptxas -v on one kernel."""
    return f"""ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '{symbol}' for '{architecture}'
ptxas info    : Function properties for {symbol}
    {frame} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads
ptxas info    : Used {registers} registers, used 1 barriers, 560 bytes cmem[0]
ptxas info    : Compile time = 45.565 ms
"""


class FunctionName(unittest.TestCase):
    def test_template_in_anonymous_namespace(self):
        self.assertEqual(check_ptxas.function_name(SYMBOL), "burst_kernel")

    def test_global_namespace(self):
        self.assertEqual(check_ptxas.function_name("_Z5drainPim"), "drain")

    def test_internal_linkage(self):
        self.assertEqual(check_ptxas.function_name("_ZN6xstageL6verifyEPy"), "verify")

    def test_name_that_contains_digits(self):
        self.assertEqual(check_ptxas.function_name("_ZN3one12two3three444Ev"), "two3three444")

    def test_unmangled(self):
        self.assertEqual(check_ptxas.function_name("plain_kernel"), "plain_kernel")


class ParseReport(unittest.TestCase):
    def test_one_kernel_for_two_architectures(self):
        parsed = check_ptxas.parse_report(report(architecture="sm_80", registers=40) + report(registers=48))
        self.assertEqual([(k.architecture, k.registers) for k in parsed.kernels], [("sm_80", 40), ("sm_90", 48)])
        self.assertEqual(parsed.complaints, [])

    def test_stack_frame_without_spill(self):
        complaints = check_ptxas.parse_report(report(frame=16)).complaints
        self.assertEqual(len(complaints), 1)
        self.assertIn("burst_kernel (sm_90): 16 bytes of stack frame", complaints[0])

    def test_spill_stores(self):
        self.assertIn("8 bytes of spill stores", check_ptxas.parse_report(report(frame=8, stores=8)).complaints[0])

    def test_spill_loads(self):
        self.assertIn("4 bytes of spill loads", check_ptxas.parse_report(report(loads=4)).complaints[0])

    def test_stack_frame_of_a_device_function_that_was_not_inlined(self):
        text = report() + (
            "ptxas info    : Function properties for _ZN6xstage4waitEPj\n"
            "    24 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        )
        self.assertIn("wait (sm_90): 24 bytes", check_ptxas.parse_report(text).complaints[0])

    def test_serialised_wgmma_is_printed_as_info(self):
        line = (
            "ptxas info    : (C7509) Potential Performance Loss: wgmma.mma_async instructions are serialized due to the "
            "presence of Extern calls in the function 'gemm'"
        )
        self.assertEqual(check_ptxas.parse_report(report() + line + "\n").complaints, [line])

    def test_ignored_setmaxnreg(self):
        line = "ptxas warning : (C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility"
        self.assertEqual(check_ptxas.parse_report(report() + line + "\n").complaints, [line])

    def test_warning_of_warn_spills(self):
        line = "ptxas warning : Registers are spilled to local memory in function 'burst_kernel', 8 bytes spill stores"
        self.assertEqual(check_ptxas.parse_report(line + "\n").complaints, [line])

    def test_a_source_line_that_mentions_a_remark_is_none(self):
        self.assertEqual(check_ptxas.parse_report("kernel.cu(12): see C7504 in the guide\n").complaints, [])


class CheckBudgets(unittest.TestCase):
    def check(self, budgets, **changes):
        return check_ptxas.check_budgets(check_ptxas.parse_report(report(**changes)).kernels, budgets)

    def test_at_the_budget(self):
        self.assertEqual(self.check({"burst_kernel": 48}), [])

    def test_one_register_over(self):
        self.assertEqual(
            self.check({"burst_kernel": 48}, registers=49), ["burst_kernel (sm_90): 49 registers, its budget is 48"]
        )

    def test_kernel_without_budget(self):
        self.assertIn("burst_kernel (sm_90): no register budget", self.check({})[0])

    def test_a_budget_for_the_file_name_is_none_for_the_kernel(self):
        # The mangled name holds "burst_kernel_cu", but the function has another name.
        symbol = SYMBOL.replace("12burst_kernelI", "6verifyI")
        self.assertIn("verify (sm_90): no register budget", self.check({"burst_kernel": 48}, symbol=symbol)[0])

    def test_budget_without_kernel(self):
        self.assertEqual(
            self.check({"burst_kernel": 48, "gone": 32}),
            ["gone: has a register budget but no kernel of this name was compiled"],
        )

    def test_missing_register_count(self):
        text = report().replace("ptxas info    : Used 48 registers, used 1 barriers, 560 bytes cmem[0]\n", "")
        kernels = check_ptxas.parse_report(text).kernels
        self.assertIn("reported no register count", check_ptxas.check_budgets(kernels, {"burst_kernel": 48})[0])


class WholeScript(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name)
        self.budgets = self.build / "register_budgets.json"
        self.budgets.write_text('{"burst_kernel": 48}')
        self.add_object("burst.cu", report())

    def add_object(self, source, log):
        database = self.build / "compile_commands.json"
        entries = json.loads(database.read_text()) if database.exists() else []
        command = f"nvcc -c /source/{source} -o {source}.o"
        entries.append({"directory": str(self.build), "file": f"/source/{source}", "command": command})
        database.write_text(json.dumps(entries))
        (self.build / f"{source}.o").touch()
        if log is not None:
            (self.build / f"{source}.o.ptxas").write_text(log)

    def run_script(self):
        """(exit status, stdout, stderr)"""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = check_ptxas.main([str(self.build), "--budgets", str(self.budgets)])
        return status, out.getvalue(), err.getvalue()

    def test_passes_and_says_how_close_it_is(self):
        self.assertEqual(
            self.run_script(), (0, "burst_kernel: at most 48 of 48 registers, no stack frame, no spill\n", "")
        )

    def test_second_object_fails(self):
        self.add_object("verify.cu", report(symbol="_Z6verifyv", registers=20))
        status, _, errors = self.run_script()
        self.assertEqual(status, 1)
        self.assertIn("verify (sm_90): no register budget", errors)

    def test_object_without_report(self):
        self.add_object("verify.cu", None)
        status, _, errors = self.run_script()
        self.assertEqual(status, 1)
        self.assertIn("verify.cu.o.ptxas is missing", errors)

    def test_build_without_cuda(self):
        (self.build / "compile_commands.json").write_text("[]")
        self.add_object("main.cpp", None)
        status, _, errors = self.run_script()
        self.assertEqual(status, 1)
        self.assertIn("compiles no CUDA file", errors)

    def test_folder_without_build(self):
        (self.build / "compile_commands.json").unlink()
        self.assertEqual(self.run_script()[0], 1)

    def test_budget_that_is_no_register_count(self):
        for value in ("0", "256", "true", '"48"', "null"):
            self.budgets.write_text('{"burst_kernel": %s}' % value)
            status, _, errors = self.run_script()
            self.assertEqual(status, 1, value)
            self.assertIn("must be an integer from 1 to 255", errors)


class Capture(unittest.TestCase):
    """capture_ptxas.py around a stand-in for nvcc."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.target = pathlib.Path(folder.name) / "kernel.cu.o"

    def compile(self, status, text):
        stand_in = f"import sys; sys.stderr.write({text!r}); sys.exit({status})"
        command = [sys.executable, str(SCRIPTS / "capture_ptxas.py"), sys.executable, "-c", stand_in]
        return subprocess.run(command + ["-o", str(self.target)], capture_output=True, text=True, check=False)

    def log(self):
        return self.target.with_name("kernel.cu.o.ptxas")

    def test_keeps_the_report_and_prints_only_the_rest(self):
        done = self.compile(0, report() + "kernel.cu(3): warning: unused variable\n")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "kernel.cu(3): warning: unused variable\n")
        self.assertEqual(self.log().read_text(), report() + "kernel.cu(3): warning: unused variable\n")

    def test_failure_keeps_its_status_and_leaves_no_report(self):
        done = self.compile(2, "kernel.cu(3): error: no\n")
        self.assertEqual(done.returncode, 2)
        self.assertIn("error: no", done.stderr)
        self.assertFalse(self.log().exists())


if __name__ == "__main__":
    unittest.main()
