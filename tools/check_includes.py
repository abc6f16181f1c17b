#!/usr/bin/env python3
"""Checks the rules on includes that the compiler does not.

Prints `file:line: rule` for each fault and exits 1. With --self-test it checks itself instead: each rule on a small
tree that breaks it, and all of them on one that breaks none.
"""

import re
import sys
import tempfile
from pathlib import Path

# A folder of src/ includes only from folders of the rows above its own, and from itself.
LAYERS = [
    ["base"],
    ["tensor"],
    ["device"],
    ["comm"],
    ["ops"],
    ["weights"],
    ["store"],
    ["offload"],
    ["models"],
    ["pipelines"],
    ["engine"],
    ["server", "cli", "python"],
]
ROW = {folder: row for row, folders in enumerate(LAYERS) for folder in folders}

# The subfolders of a folder, "" for the files beside them: each includes only from those before it, and from itself.
PARTS = {"engine": ["lockstep", "residency", "config", "reports", "ranks", "serving", "", "bench"]}

# Libraries that only some files may know: what the include looks like, and where it is allowed.
CONFINED = [
    (r"cuda|cublas|cudnn|nvml|driver_types\.h|curand", r"src/device/cuda/|src/comm/nccl/|src/.*_cuda\.\w+$", "CUDA"),
    (r"nccl", r"src/comm/nccl", "NCCL"),
    (r"mpi\.h", r"src/comm/mpi", "MPI"),
    (r"dnnl|oneapi/dnnl", r"src/ops/", "oneDNN"),
    (r"omp\.h", r"src/device/cpu/|tests/device/", "OpenMP"),
]

# Names of libraries that include/lamina must not show.
HIDDEN = re.compile(r"\b(cuda[A-Z_]\w*|CU(stream|device|context)|cublas\w+|nccl\w+|MPI_\w+|nlohmann|httplib|spdlog|fmt)\b")

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
HEADERS = {".h", ".cuh"}
SOURCES = {".cpp", ".cu"}


class File:
    """A source file: its path below the root, and its includes as (line number, is quoted, name)."""

    def __init__(self, root, path):
        self.path = path.relative_to(root).as_posix()
        self.text = path.read_text(encoding="utf-8")
        self.code = COMMENT_OR_STRING.sub(blank, self.text)
        self.includes = []
        for number, (line, code) in enumerate(zip(self.text.splitlines(), self.code.splitlines()), 1):
            match = INCLUDE.match(line)
            if match and "#" in code:
                self.includes.append((number, match[1] == '"', match[2]))

    @property
    def folder(self):
        parts = self.path.split("/")
        return parts[1] if parts[0] == "src" and len(parts) > 2 else None

    @property
    def is_header(self):
        return Path(self.path).suffix in HEADERS


def blank(match):
    """The matched text without its characters, line breaks kept, so that line numbers stay."""
    return re.sub(r"[^\n]", " ", match[0])


def check_pragma(file):
    if file.is_header and not re.search(r"^#pragma once$", file.code, re.MULTILINE):
        yield 1, "a header starts with #pragma once"


def check_arrow(file):
    if file.folder is None:
        return
    if file.folder not in ROW:
        yield 1, f"src/{file.folder} is no layer; the layers stand in tools/check_includes.py"
        return
    for line, quoted, name in file.includes:
        folder = name.split("/")[0]
        if not quoted or name.startswith("lamina/"):
            continue
        if folder == file.folder:
            yield from check_part(file, line, name)
            continue
        if folder not in ROW or "/" not in name:
            yield line, f'"{name}": write includes from src/ ("{file.folder}/...") or include/ ("lamina/...")'
        elif ROW[folder] >= ROW[file.folder]:
            yield line, f'"{name}": {file.folder} must not include from {folder}, which stands above it'


def part_of(path, parts):
    """The part of its folder in which a file lies, for a path such as "engine/ranks/rank_loop.h"."""
    names = path.split("/")
    return names[1] if len(names) > 2 and names[1] in parts else ""


def check_part(file, line, name):
    parts = PARTS.get(file.folder)
    if parts is None:
        return
    own, other = part_of(file.path.removeprefix("src/"), parts), part_of(name, parts)
    if parts.index(other) > parts.index(own):
        here, there = (f"{file.folder}/{part}".rstrip("/") for part in (own, other))
        yield line, f'"{name}": {here} must not include from {there}'


def own_headers(root, file):
    """The headers that bear the name of `file`, as they are included."""
    stem = file.path.removeprefix("src/").rsplit(".", 1)[0]
    names = [f"{stem}.h", f"lamina/{Path(stem).name}.h"]
    return [name for name in names if (root / "src" / name).exists() or (root / "include" / name).exists()]


def check_own_header_first(root, file):
    if file.folder is None or file.is_header:
        return
    own = own_headers(root, file)
    if own and (not file.includes or file.includes[0][2] not in own):
        line = file.includes[0][0] if file.includes else 1
        yield line, f'"{own[0]}": a file includes its own header first'


def check_public(file):
    if not file.path.startswith("include/"):
        return
    for line, quoted, name in file.includes:
        if quoted and not name.startswith("lamina/"):
            yield line, f'"{name}": a public header includes no header of src/'
        elif not quoted and re.search(r"[./]", name):
            yield line, f"<{name}>: a public header includes nothing but the standard library and lamina/"
    for number, line in enumerate(file.code.splitlines(), 1):
        match = HIDDEN.search(line)
        if match and not INCLUDE.match(line):
            yield number, f"{match[0]}: a public header shows no type of another library"


def check_confined(file):
    for line, _, name in file.includes:
        for pattern, allowed, library in CONFINED:
            if re.match(pattern, name) and not re.match(allowed, file.path):
                yield line, f"{name}: {library} is known only to files matching {allowed}"


def check_tree(root):
    """All faults below `root` as (path, line, rule)."""
    faults = []
    for top in ("include", "src", "tests", "bench"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in HEADERS | SOURCES:
                continue
            file = File(root, path)
            found = [*check_pragma(file), *check_arrow(file), *check_own_header_first(root, file), *check_public(file)]
            found += check_confined(file)
            faults += [(file.path, line, rule) for line, rule in sorted(found)]
    return faults


GOOD_TREE = {
    "include/lamina/error.h": '#pragma once\n#include <string>\n// nlohmann::json stays inside\nint code();\n',
    "src/base/error.cpp": '#include "lamina/error.h"\n\n#include <fmt/format.h>\n',
    "src/base/file.h": "// A file.\n#pragma once\n",
    "src/base/file.cpp": '#include "base/file.h"\n\n#include <nlohmann/json.hpp>\n#include "lamina/error.h"\n',
    "src/ops/linear.h": '#pragma once\n#include "base/file.h"\n// #include "engine/engine.h"\n',
    "src/ops/linear.cpp": '#include "ops/linear.h"\n#include "ops/cpu_ops.h"\n',
    "src/ops/linear_cpu.cpp": '#include <oneapi/dnnl/dnnl.hpp>\n#include "ops/cpu_ops.h"\n',
    "src/ops/linear_cuda.cu": "#include <cuda_runtime.h>\n",
    "src/device/cpu/team.cpp": "#include <omp.h>\n",
    "src/comm/nccl_communicator.cpp": "#include <nccl.h>\n",
    "src/engine/lockstep/rules.h": "#pragma once\n",
    "src/engine/ranks/loop.h": '#pragma once\n#include "engine/lockstep/rules.h"\n',
    "src/engine/engine.h": '#pragma once\n#include "engine/ranks/loop.h"\n',
    "src/cli/main.cpp": '#include "ops/linear.h"\n',
    "tests/ops/linear_test.cpp": '#include "ops/linear.h"\n#include "support/fixtures.h"\n',
}

# Each: a file to add or replace in the good tree, the line of the fault, and a part of the rule that is printed.
BAD_FILES = [
    ("src/base/file.h", "int x;\n", 1, "#pragma once"),
    ("tests/support/fixtures.h", "// #pragma once\n", 1, "#pragma once"),
    ("src/base/up.h", '#pragma once\n#include "ops/linear.h"\n', 2, "base must not include from ops"),
    ("src/cli/peer.h", '#pragma once\n\n#include "server/http.h"\n', 3, "cli must not include from server"),
    ("src/ops/near.h", '#pragma once\n#include "linear.h"\n', 2, "write includes from src/"),
    ("src/ops/dots.h", '#pragma once\n#include "../base/file.h"\n', 2, "write includes from src/"),
    ("src/engine/lockstep/x.h", '#pragma once\n#include "engine/ranks/y.h"\n', 2, "lockstep must not include from engine/ranks"),
    ("src/engine/ranks/x.h", '#pragma once\n#include "engine/engine.h"\n', 2, "ranks must not include from engine"),
    ("src/misc/x.h", "#pragma once\n", 1, "is no layer"),
    ("src/base/file.cpp", '#include <vector>\n#include "base/file.h"\n', 1, "its own header first"),
    ("src/base/error.cpp", "int code() { return 1; }\n", 1, "its own header first"),
    ("src/ops/linear.cpp", '#include <vector>\n#include "ops/linear.h"\n', 1, "its own header first"),
    ("include/lamina/a.h", '#pragma once\n#include "base/file.h"\n', 2, "no header of src/"),
    ("include/lamina/a.h", "#pragma once\n#include <nlohmann/json.hpp>\n", 2, "nothing but the standard library"),
    ("include/lamina/a.h", "#pragma once\n/* a\n */ cudaStream_t stream();\n", 3, "cudaStream_t"),
    ("include/lamina/a.h", "#pragma once\nncclComm_t comm();\n", 2, "ncclComm_t"),
    ("include/lamina/a.h", "#pragma once\nMPI_Comm comm();\n", 2, "MPI_Comm"),
    ("include/lamina/a.h", "#pragma once\nnlohmann::json report();\n", 2, "nlohmann"),
    ("include/lamina/a.h", "#pragma once\nhttplib::Server& server();\n", 2, "httplib"),
    ("include/lamina/a.h", "#pragma once\nspdlog::logger& log();\n", 2, "spdlog"),
    ("src/ops/conv.cpp", "#include <cuda_runtime.h>\n", 1, "CUDA is known only"),
    ("src/ops/conv.cpp", "#include <nccl.h>\n", 1, "NCCL is known only"),
    ("src/engine/ranks.cpp", "#include <mpi.h>\n", 1, "MPI is known only"),
    ("src/models/block.cpp", "#include <dnnl.hpp>\n", 1, "oneDNN is known only"),
    ("src/ops/conv.cpp", "#  include <omp.h>\n", 1, "OpenMP is known only"),
    ("tests/ops/conv_test.cpp", '#include "oneapi/dnnl/dnnl.hpp"\n', 1, "oneDNN is known only"),
]


def faults_of(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return check_tree(Path(folder))


def self_test():
    """Exits 1 unless the good tree has no fault and each bad file gives exactly its own."""
    wrong = [f"the good tree: {fault}" for fault in faults_of(GOOD_TREE)]
    for name, text, line, rule in BAD_FILES:
        faults = faults_of({**GOOD_TREE, name: text})
        if len(faults) != 1 or faults[0][:2] != (name, line) or rule not in faults[0][2]:
            wrong.append(f"{name} {text!r}: expected line {line} with '{rule}', found {faults}")
    for message in wrong:
        print(f"check_includes: self-test: {message}", file=sys.stderr)
    return 1 if wrong else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:]:
        print("usage: check_includes.py [--self-test]", file=sys.stderr)
        return 2
    faults = check_tree(Path(__file__).resolve().parent.parent)
    for path, line, rule in faults:
        print(f"{path}:{line}: {rule}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
