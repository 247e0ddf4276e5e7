"""Result files as tables read them: rows by their key fields, numbers as text, where the numbers come from."""

import json
import re

MISSING = "–"


class Results:
    """One file of bench/results. A file that is not there has no rows: its cells stay missing."""

    def __init__(self, repository, name):
        self.name = f"bench/results/{name}.json"
        path = repository / self.name
        self.document = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        self.rows = self.document.get("rows", [])
        stale = repository / "bench" / "stale.json"
        self.stale = stale.is_file() and name in json.loads(stale.read_text(encoding="utf-8"))

    def select(self, **key):
        """Rows with these fields."""
        return [row for row in self.rows if all(row.get(field) == value for field, value in key.items())]

    def row(self, **key):
        """The one row with these fields; {} if there is none."""
        rows = self.select(**key)
        if len(rows) > 1:
            raise ValueError(f"{self.name}: {len(rows)} rows with {key}; a table needs one")
        return rows[0] if rows else {}

    def source(self):
        """Where it comes from: file, and the command without what only places its output."""
        if not self.document:
            return f"`{self.name}` (missing)"
        command = re.sub(r" (--commit|--output|-o|--limit) \S+", "", self.document["command"])
        note = ", measured before its code changed last" if self.stale else ""
        return f"`{self.name}` (`{command}`{note})"

    def rest_ms(self):
        """Milliseconds of rest before each trial; None if there are none."""
        if "rest_ms" in self.document:
            return self.document["rest_ms"]
        said = re.search(r"rest of (\d+) ms", str(self.document.get("timing", "")))
        return int(said.group(1)) if said else None


def number(value, decimals):
    return MISSING if value is None else f"{value:.{decimals}f}"


def percent(fraction, decimals=1):
    return MISSING if fraction is None else f"{100 * fraction:.{decimals}f}%"


def microseconds(row, decimals=1):
    """The rested time, with the sustained one behind a slash where the row has it."""
    text = number(row.get("microseconds"), decimals)
    return f"{text} / {number(row['sustained_us'], decimals)}" if row.get("sustained_us") is not None else text


def quotient(over, under):
    """None where either is missing."""
    return over / under if over is not None and under else None


def with_note(text, note):
    """`text (note)`; without a missing note."""
    return text if MISSING in (text, note) else f"{text} ({note})"


def table(headings, rows):
    """Markdown. Columns in which every cell is missing are left out."""
    used = [column for column in range(len(headings)) if any(row[column] != MISSING for row in rows)]
    lines = [[headings[column] for column in used], ["---" for _ in used]]
    lines += [[row[column] for column in used] for row in rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def how_measured(*files):
    """What holds for every number of a table: machine, rests, sustained figures, multicast, files and commands."""
    measured = [file for file in files if file.document]
    gpus = measured[0].document["hardware"]["gpus"]
    text = f"{len(gpus)} × {gpus[0]} ran CUDA-graph replays; NVLink multicast is {multicast(measured)} for all. "
    text += rests(measured)
    if any(row.get("sustained_us") is not None for file in measured for row in file.rows):
        text += "; the sustained time, without rests for at least 2 s, stands behind a slash"
    return text + ".\nFiles: " + ", ".join(file.source() for file in files) + "."


def rests(files):
    """Whether trials start on a rested GPU, file by file where they differ."""
    without = [f"`{file.name}`" for file in files if not file.rest_ms()]
    lengths = " or ".join(f"{rest:g}" for rest in sorted({file.rest_ms() for file in files if file.rest_ms()}))
    if not without:
        return f"Every trial starts on a rested GPU ({lengths} ms without work)"
    if len(without) == len(files):
        return "Trials follow each other without a rest"
    return f"Trials start on a rested GPU ({lengths} ms without work), but those of {' and '.join(without)} follow each other without a rest"


def multicast(files):
    """`off` unless a file says otherwise: the baselines switch it off, and no kernel here uses it."""
    said = {str(file.document.get("multicast", "off")) for file in files}
    return " or ".join(sorted(said))


def software(file):
    """`PyTorch 2.11.0, cuDNN 9.19.0, NCCL 2.28.9`, as far as the file says."""
    versions = file.document.get("software", {})
    texts = []
    if "torch" in versions:
        texts.append(f"PyTorch {versions['torch'].split('+')[0]}")
    if "cudnn" in versions:
        cudnn = versions["cudnn"]
        texts.append(f"cuDNN {cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}" if isinstance(cudnn, int) else f"cuDNN {cudnn}")
    if "nccl" in versions:
        texts.append(f"NCCL {versions['nccl']}")
    return ", ".join(texts) or "PyTorch"
