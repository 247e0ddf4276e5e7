"""A project of somebody else uses xstage: installed, by find_package and pkg-config, and as a part of its own build.

usage: install_test.py BUILD_FOLDER
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv.pop(1)).resolve()

PROGRAM = r"""
#include <cstdio>
#include <string>

%(headers)s

int main() {
  const xstage::Platform platform = xstage::read_platform("%(platform)s");
  std::printf("%%s: %%s\n", std::string(xstage::tool_version()).c_str(), platform.node.name.c_str());
}
"""

# Conversions that our own warnings refuse: our flags must not reach this project.
CARELESS = "int narrowed(double value) { int result = value; return result; }\n"

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(downstream LANGUAGES CXX)
%s
add_executable(downstream main.cpp careless.cpp)
target_link_libraries(downstream PRIVATE xstage::xstage)
"""


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        cls.prefix = cls.folder / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def project(self, name, finding):
        folder = self.folder / name
        folder.mkdir()
        headers = sorted(path.name for path in (REPOSITORY / "include/xstage").glob("*.hpp"))
        program = PROGRAM % {
            "headers": "\n".join(f"#include <xstage/{header}>" for header in headers),
            "platform": REPOSITORY / "profiles/h200x2.json",
        }
        (folder / "main.cpp").write_text(program, encoding="utf-8")
        (folder / "careless.cpp").write_text(CARELESS, encoding="utf-8")
        (folder / "CMakeLists.txt").write_text(PROJECT % finding, encoding="utf-8")
        return folder

    def test_find_package(self):
        folder = self.project("found", "find_package(xstage 0.1 REQUIRED)")
        run("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", "-G", "Ninja")
        run("cmake", "--build", folder / "build")
        self.assertRegex(run(folder / "build/downstream"), r"^\d+\.\d+\.\d+.*: \S+")

    def test_a_missing_component_is_named(self):
        folder = self.project("component", "find_package(xstage REQUIRED COMPONENTS teleportation)")
        done = subprocess.run(
            ["cmake", "-S", str(folder), "-B", str(folder / "build"), f"-DCMAKE_PREFIX_PATH={self.prefix}"],
            capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("This installation of xstage has no 'teleportation'", re.sub(r"\s+", " ", done.stderr))

    def test_every_installed_library_is_a_component_that_links(self):
        targets = (self.prefix / "lib/cmake/xstage/xstage-targets.cmake").read_text(encoding="utf-8")
        names = re.findall(r"^add_library\(xstage::(\w+) STATIC IMPORTED\)", targets, re.MULTILINE)
        self.assertIn("xstage", names)
        self.assertIn("cuda_node", names)
        folder = self.project("components", f"find_package(xstage REQUIRED COMPONENTS {' '.join(names)})")
        linked = " ".join(f"xstage::{name}" for name in names)
        (folder / "main.cpp").write_text(
            "#include <xstage/cuda_node.hpp>\nint main() { return xstage::cuda_unavailable_reason().empty() ? 0 : 0; }\n",
            encoding="utf-8")
        with open(folder / "CMakeLists.txt", "a", encoding="utf-8") as project:
            project.write(f"target_link_libraries(downstream PRIVATE {linked})\n")
        run("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", "-G", "Ninja")
        run("cmake", "--build", folder / "build")
        run(folder / "build/downstream")

    def test_pkg_config(self):
        folder = self.project("packaged", "")
        environment = {**os.environ, "PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "xstage", env=environment).split()
        compiler = os.environ.get("CXX", "c++")
        run(compiler, "-std=c++20", folder / "main.cpp", folder / "careless.cpp", *flags, "-o", folder / "downstream")
        self.assertRegex(run(folder / "downstream"), r"^\d+\.\d+\.\d+.*: \S+")

    def test_as_a_part_of_another_build(self):
        """Only configured: the libraries take minutes to compile."""
        folder = self.project("around", f'add_subdirectory("{REPOSITORY}" xstage)')
        (folder / "compiler.cmake").write_text('message(FATAL_ERROR "not yours")\n', encoding="utf-8")
        run("cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", "-DXSTAGE_CUDA=OFF",
            f"-DCMAKE_MODULE_PATH={folder}")
        targets = run("ninja", "-C", folder / "build", "-t", "targets", "all")
        self.assertIn("libxstage.a", targets)
        for absent in ("unit_tests", "model_bench", "xstage_operators", "xstage_tool"):
            self.assertNotIn(absent, targets)
        commands = run("ninja", "-C", folder / "build", "-t", "commands", "downstream")
        own = [line for line in commands.splitlines() if "careless.cpp" in line]
        self.assertTrue(own and not any("-Werror" in line for line in own))
        library = [line for line in commands.splitlines() if "src/audit/" in line and " -c " in line]
        self.assertTrue(library and all("-Werror" in line for line in library))
        cache = (folder / "build/CMakeCache.txt").read_text(encoding="utf-8")
        self.assertRegex(cache, r"CMAKE_BUILD_TYPE:STRING=\n")

    def test_nothing_of_the_sources_is_in_the_package(self):
        for path in (self.prefix / "lib").rglob("*"):
            if path.suffix in (".cmake", ".pc"):
                text = path.read_text(encoding="utf-8")
                self.assertNotIn(str(REPOSITORY), text, path)
                for private in ("nlohmann", "fmt::", "-Werror"):
                    self.assertNotIn(private, text, path)


if __name__ == "__main__":
    unittest.main()
