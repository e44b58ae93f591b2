#!/usr/bin/env python3
"""Prints every object, attribute and type of an HDF5 file, one per line, without properties that
may differ between two equal files (offsets, sizes, library versions). `h5walk.py --listing FILE`
converts a listing of tests/golden to that form."""
import re
import sys


def normal(line):
    return re.sub(r" offset=\S+", "", line.rstrip("\n"))


def attribute(node, key, indent):
    a = node.attrs.get_id(key)
    t, v = a.get_type(), node.attrs[key]
    cset = t.get_cset() if hasattr(t, "get_cset") else None
    pad = t.get_strpad() if hasattr(t, "get_strpad") else None
    return (f"{indent}@{key} dtype={a.dtype} shape={a.shape} h5type={type(t).__name__} class={t.get_class()} cset={cset} strpad={pad} "
            f"size={t.get_size()} value={v!r}")


def walk(path):
    import h5py
    with h5py.File(path, "r") as f:
        lines = ["/"] + [attribute(f, k, "  ") for k in sorted(f.attrs)]
        names = []
        f.visit(names.append)
        for name in sorted(names):
            node = f[name]
            if isinstance(node, h5py.Group):
                lines.append(f"/{name}  GROUP")
            else:
                lines.append(f"/{name}  DATASET dtype={node.dtype} shape={node.shape} maxshape={node.maxshape} chunks={node.chunks} "
                             f"compression={node.compression} fillvalue={node.fillvalue}")
            lines += [attribute(node, k, "    ") for k in sorted(node.attrs)]
    return "\n".join(lines).split("\n")


def main():
    if sys.argv[1] == "--listing":
        lines = [s for s in open(sys.argv[2]) if " written by " not in s and not s.startswith("file ")]
    else:
        lines = walk(sys.argv[1])
    print("\n".join(normal(s) for s in lines))


main()
