"""Tests of scripts/check_results.py on small repositories of their own."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import check_results  # noqa: E402

# Neither the user's configuration nor a surrounding git command may reach these repositories.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
CLEAN |= {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "test",
    "GIT_AUTHOR_EMAIL": "test@example.org",
    "GIT_COMMITTER_NAME": "test",
    "GIT_COMMITTER_EMAIL": "test@example.org",
}


def git(folder, *arguments):
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], env=CLEAN, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


class Results(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.repository = pathlib.Path(folder.name) / "repository"
        self.repository.mkdir()
        git(self.repository, "init", "--quiet", "--initial-branch=main")
        self.write("src/kernels/gemm/gemm.cu", "first")
        self.write("src/node/cuda/burst.cu", "first")
        self.write("README.md", "first")
        self.measured = self.commit()

    def write(self, path, text):
        file = self.repository / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def commit(self):
        git(self.repository, "add", "--all")
        git(self.repository, "commit", "--quiet", "--allow-empty", "--message", "change")
        return git(self.repository, "rev-parse", "HEAD")

    def add_result(self, name, commit):
        self.write(f"bench/results/{name}", json.dumps({"schema": "xstage.bench/1", "commit": commit}))

    def complaints(self, repository=None):
        return check_results.check(repository or self.repository)[0]

    def test_no_results(self):
        self.assertEqual(check_results.check(self.repository), ([], ["no result files in bench/results"]))

    def test_unchanged_code(self):
        self.add_result("gemm-h200x2.json", self.measured)
        self.write("README.md", "second")
        self.commit()
        self.assertEqual(self.complaints(), [])

    def test_abbreviated_commit(self):
        self.add_result("gemm-h200x2.json", self.measured[:10])
        self.assertEqual(self.complaints(), [])

    def test_changed_kernel(self):
        self.add_result("gemm-h200x2.json", self.measured)
        self.write("src/kernels/gemm/gemm.cu", "second")
        self.commit()
        self.assertEqual(len(self.complaints()), 1)
        self.assertIn("since then changed: src/kernels/gemm/gemm.cu", self.complaints()[0])

    def test_comments_and_layout_may_change(self):
        code = 'f(a, b);  // old\n#define X 1\nauto text = "// none";\n'
        self.write("src/kernels/gemm/gemm.cu", code)
        self.add_result("gemm-h200x2.json", self.commit())
        laid_out = '/* new */ f(a,\n  b);\n#define X  1 // one\nauto text =\n    "// none";'
        self.write("src/kernels/gemm/gemm.cu", laid_out)
        self.assertEqual(self.complaints(), [])
        for old, new in (("a, b", "a b"), ("X 1\n", "X 1 "), ("// none", "//none"), ("f(", "f(f("), ("#define", "# undef")):
            with self.subTest(f"{old!r} to {new!r}"):
                self.write("src/kernels/gemm/gemm.cu", code.replace(old, new))
                self.assertEqual(len(self.complaints()), 1)

    def test_layout_of_other_files_counts(self):
        self.write("src/kernels/gemm/budgets.json", '{"a": 1}')
        self.add_result("gemm-h200x2.json", self.commit())
        self.write("src/kernels/gemm/budgets.json", '{"a":  1}')
        self.assertEqual(len(self.complaints()), 1)

    def test_changed_schedule_in_a_folder_that_did_not_exist(self):
        self.add_result("gemm-h200x2.json", self.measured)
        self.write("src/schedule/wave.hpp", "new")
        self.commit()
        self.assertIn("src/schedule/wave.hpp", self.complaints()[0])

    def test_kernels_of_other_operators(self):
        self.add_result("gemm-h200x2.json", self.measured)
        self.add_result("attention-h200.json", self.measured)
        self.write("src/kernels/attention/attention.cu", "new")
        self.assertEqual(len(self.complaints()), 1)
        self.assertIn("attention-h200.json", self.complaints()[0])
        self.write("src/kernels/gemm/gemm.cu", "second")
        self.assertEqual(len(self.complaints()), 2)

    def test_shared_code_counts_for_all_operators(self):
        self.add_result("gemm-h200x2.json", self.measured)
        self.add_result("attention-h200.json", self.measured)
        self.write("src/kernels/common/signals.cuh", "new")
        self.assertEqual(len(self.complaints()), 2)

    def test_operator_that_is_not_known_depends_on_all_kernels(self):
        self.add_result("convolution-h200x2.json", self.measured)
        self.write("src/kernels/attention/attention.cu", "new")
        self.assertEqual(len(self.complaints()), 1)

    def test_operator_that_uses_kernels_of_others(self):
        self.add_result("moe-bf16-h200x2.json", self.measured)
        self.add_result("ulysses-h200x2.json", self.measured)
        self.write("src/kernels/moe/dispatch.cu", "new")
        self.assertEqual(["moe-bf16" in complaint for complaint in self.complaints()], [True])
        self.write("src/kernels/attention/attention.cu", "new")
        self.assertEqual(len(self.complaints()), 2)
        self.commit()
        self.add_result("moe-bf16-h200x2.json", git(self.repository, "rev-parse", "HEAD"))
        self.write("src/kernels/gemm/gemm.cu", "second")
        self.assertEqual(sum("gemm.cu" in complaint for complaint in self.complaints()), 2)

    def test_change_that_is_not_committed(self):
        self.add_result("gemm-h200x2.json", self.measured)
        self.write("src/kernels/gemm/gemm.cu", "second")
        self.assertIn("gemm.cu", self.complaints()[0])

    def test_new_file_that_is_not_tracked(self):
        self.add_result("gemm-h200x2.json", self.measured)
        self.write("src/kernels/gemm/new.cu", "new")
        self.assertIn("new.cu", self.complaints()[0])

    def test_deleted_kernel(self):
        self.add_result("gemm-h200x2.json", self.measured)
        (self.repository / "src/kernels/gemm/gemm.cu").unlink()
        self.assertIn("gemm.cu", self.complaints()[0])

    def test_calibration_depends_on_the_node_only(self):
        self.add_result("calibration-h200x2.json", self.measured)
        self.write("src/kernels/gemm/gemm.cu", "second")
        self.commit()
        self.assertEqual(self.complaints(), [])
        self.write("src/node/cuda/burst.cu", "second")
        self.commit()
        self.assertIn("src/node/cuda/burst.cu", self.complaints()[0])

    def test_other_results_do_not_depend_on_the_node(self):
        self.add_result("gemm-h200x2.json", self.measured)
        self.write("src/node/cuda/burst.cu", "second")
        self.commit()
        self.assertEqual(self.complaints(), [])

    def test_unknown_commit(self):
        self.add_result("gemm-h200x2.json", "0123456789" * 4)
        self.assertIn("is not in this repository", self.complaints()[0])

    def test_commit_of_another_branch(self):
        git(self.repository, "checkout", "--quiet", "-b", "other")
        other = self.commit()
        git(self.repository, "checkout", "--quiet", "main")
        self.add_result("gemm-h200x2.json", other)
        self.assertIn("is not in the history of HEAD", self.complaints()[0])

    def test_commit_of_a_changed_tree(self):
        self.add_result("gemm-h200x2.json", self.measured + "-dirty")
        self.assertIn("from a committed tree", self.complaints()[0])

    def test_no_commit(self):
        self.write("bench/results/gemm-h200x2.json", "{}")
        self.assertEqual(self.complaints(), ["gemm-h200x2.json: names no commit"])

    def test_broken_file(self):
        self.write("bench/results/gemm-h200x2.json", '{"commit": ')
        self.assertIn("not JSON", self.complaints()[0])

    def test_shallow_clone_says_that_it_cannot_know(self):
        self.add_result("gemm-h200x2.json", self.measured)
        self.write("src/kernels/gemm/gemm.cu", "second")
        self.commit()
        shallow = self.repository.parent / "shallow"
        git(self.repository.parent, "clone", "--quiet", "--depth=1", self.repository.as_uri(), str(shallow))
        complaints, notes = check_results.check(shallow)
        self.assertEqual(complaints, [])
        self.assertEqual(
            notes, [f"gemm-h200x2.json: not checked, this shallow clone lacks commit {self.measured}"]
        )

    def test_export_without_repository(self):
        self.add_result("gemm-h200x2.json", self.measured)
        (self.repository / ".git").rename(self.repository.parent / "put_away")
        complaints, notes = check_results.check(self.repository)
        self.assertEqual(complaints, [])
        self.assertIn("is not a git repository", notes[0])


if __name__ == "__main__":
    unittest.main()
