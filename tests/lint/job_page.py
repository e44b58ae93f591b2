"""deploy/jobs/README.md as data: what its tables say of the job file. Read by jobs, which asks the
program whether it is so, and by schema, which writes it as a JSON Schema. A table stands behind

    <!-- object: NAME PATH by KEY -->    an object of the job file; KEY says of which kind it is
    <!-- keys: NAME KINDS -->            keys of such an object, of these kinds or of all
    <!-- names: WHAT -->                 names that a key takes

Types are words: "integer, 0 to 7", "list of 1 to 64 texts or [Hamiltonians](#observables)"."""
import re

PAGE = "deploy/jobs/README.md"


class Row:
    def __init__(self, cells):
        self.key = words(cells[0])[0]
        self.type, self.default, self.what, self.example = cells[1:5]


class Object:
    def __init__(self, text):
        name, *rest = text.split()
        self.name, self.by = name, rest[-1] if rest[-2:-1] == ["by"] else None
        self.path = rest[0] if rest and rest[0] != "by" else ""


class Page:
    """objects: {name: Object}; keys: {(object, kind or None): rows}; names: {what: cells};
    examples: (line, text) of jobs in full; wrong: what cannot be read."""

    def __init__(self):
        self.objects, self.keys, self.names, self.examples, self.wrong = {}, {}, {}, [], []
        with open(PAGE, encoding="utf-8") as f:
            lines = f.read().split("\n")
        for at, line in enumerate(lines):
            marker = re.fullmatch(r"<!-- (object|keys|names): (.*) -->", line)
            if line.startswith("```json"):
                self.examples.append((at + 1, "\n".join(lines[at + 1:lines.index("```", at + 1)])))
            if marker and marker[1] == "object":
                found = Object(marker[2])
                self.objects[found.name] = found
            elif marker:
                self.table(marker[1], marker[2], block_below(lines, at))

    def table(self, mark, what, block):
        table = [cells_of(row) for row in block if row.startswith("|")][2:]
        if mark == "names":
            self.names.setdefault(what, []).extend(table or [[text] for text in block])
            return
        object_, *kinds = what.split()
        if object_ not in self.objects:
            self.wrong.append(f"{object_}: no <!-- object: --> says where it stands")
        for row in table:
            if len(row) != 5:
                self.wrong.append(f"{object_}: a row of other than five cells: {row[0]}")
        rows = [Row(row) for row in table if len(row) == 5]
        for kind in kinds or [None]:
            self.keys.setdefault((object_, kind), []).extend(rows)

    def names_of(self, what):
        """The names of a table, also where it is about the plural."""
        rows = self.names.get(what) or self.names.get(what + "s", [])
        return [w for cells in rows for w in words(cells[0])]


def words(cell):
    return re.findall(r"`([^`]*)`", cell)


def cells_of(line):
    return [c.strip() for c in line.strip().strip("|").split("|")]


def block_below(lines, at):
    end = at + 1
    while end < len(lines) and lines[end].strip():
        end += 1
    return lines[at + 1:end]


def number(text):
    power = re.fullmatch(r"2\^(\d+)( - 1)?", text)
    return float(2 ** int(power[1]) - bool(power[2])) if power else float(text)
