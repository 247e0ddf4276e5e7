"""What the tests of the PyTorch binding share: they run with pytest or alone, and say why they were skipped."""

import functools
import sys
import traceback


@functools.lru_cache(maxsize=None)
def missing(gpus):
    """What is not there, or nothing."""
    try:
        import xstage  # noqa: F401
    except ImportError as error:
        return f"the package cannot be imported: {error}"
    if gpus == 0:
        return ""
    try:
        import torch
    except ImportError as error:
        return f"no PyTorch: {error}"
    if not torch.cuda.is_available():
        return "no CUDA GPU that PyTorch can use"
    if torch.cuda.device_count() < gpus:
        return f"needs {gpus} GPUs, this machine has {torch.cuda.device_count()}"
    for device in range(gpus):
        if torch.cuda.get_device_capability(device) != (9, 0):
            return f"needs GPUs of compute capability 9.0, GPU {device} has {torch.cuda.get_device_capability(device)}"
    return ""


class Skipped(Exception):
    """Where there is no pytest."""


def needs(gpus):
    def decorate(test):
        @functools.wraps(test)
        def run():
            reason = missing(gpus)
            if not reason:
                return test()
            if "pytest" in sys.modules:
                sys.modules["pytest"].skip(reason)
            raise Skipped(reason)

        return run

    return decorate


def error_of(kind, function, *words):
    """Calls, and asks for an error of this kind (not of a derived one) with all words in its message."""
    try:
        function()
    except Exception as error:
        assert type(error) is kind, f"{type(error).__name__} instead of {kind.__name__}: {error}"
        for word in words:
            assert word in str(error), f"'{word}' is not in: {error}"
        return
    raise AssertionError(f"no {kind.__name__}")


def run_tests(names):
    """Runs the tests among these globals, a line each, and returns the exit code: 77 if some were skipped."""
    failed, skipped = 0, 0
    for name, test in list(names.items()):
        if not name.startswith("test_"):
            continue
        try:
            test()
            print(f"passed  {name}")
        except Skipped as reason:
            skipped += 1
            print(f"skipped: {name}: {reason}")
        except Exception:
            failed += 1
            print(f"FAILED  {name}")
            traceback.print_exc()
    if failed:
        return 1
    return 77 if skipped else 0
