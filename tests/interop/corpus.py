#!/usr/bin/env python3
"""Writes the npz, safetensors, JSON and CSV seeds of tests/fuzz/corpus: valid, truncated and
malformed files. corpus.py DIR"""
import json
import os
import struct
import sys
import zipfile

import numpy as np

root = sys.argv[1]


def save(kind, name, data):
    with open(os.path.join(root, kind, name), "wb") as f:
        f.write(data)
    return data


def content(kind, name):
    with open(os.path.join(root, kind, name), "rb") as f:
        return f.read()


def cuts(kind, name):
    data = content(kind, name)
    for part in (0.3, 0.6, 0.9):
        save(kind, f"bad-cut-{int(part * 100)}-{name}", data[:int(len(data) * part)])


x = np.arange(6).reshape(2, 3) / 4
y = np.array([1, -1])
npz = os.path.join(root, "npz")
np.savez(f"{npz}/good-savez.npz", x=x, y=y)
np.savez_compressed(f"{npz}/good-compressed.npz", x=np.tile(x, (50, 1)), y=np.tile(y, 50))
np.savez(f"{npz}/good-types.npz", **{t: np.array([[0, 1], [1, 0]], dtype=t) for t in "f4 >f8 i1 >i2 i4 i8 u1 u2 u4 >u8 ?".split()})
np.savez(f"{npz}/good-fortran.npz", x=np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)), s=np.float32(0.5), e=np.zeros((0, 3)))
np.savez(f"{npz}/good-bytes.npz", x=np.array([[b"ab", b"c\0d"]]), y=y.astype(float))
np.savez(f"{npz}/bad-object.npz", x=np.array([None, 1], dtype=object))
np.savez(f"{npz}/bad-text.npz", x=np.array(["a", "b"]))
np.savez(f"{npz}/bad-half.npz", x=x.astype("f2"))
np.savez(f"{npz}/bad-complex.npz", x=x.astype("c8"))
np.savez(f"{npz}/bad-structured.npz", x=np.zeros(2, dtype=[("a", "f4"), ("b", "f4")]))
np.savez(f"{npz}/bad-above-2-53.npz", x=np.array([1, 2**53 + 2], dtype="u8"))
np.savez(f"{npz}/bad-rank-9.npz", x=np.zeros((1,) * 9))
np.save(f"{npz}/bad-single.npz.npy", x)
os.rename(f"{npz}/bad-single.npz.npy", f"{npz}/bad-single.npz")
cuts("npz", "good-savez.npz")
cuts("npz", "good-compressed.npz")


def zipped(name, members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(f"{npz}/{name}", "w", method) as z:
        for k, v in members:
            z.writestr(zipfile.ZipInfo(k) if method == zipfile.ZIP_STORED else k, v, method)


def npy(header, data=b"", version=1):
    h = header.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + (struct.pack("<H", len(h)) if version == 1 else struct.pack("<I", len(h))) + h + data


zipped("good-v2.npz", [("x.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }\n", b"\0" * 8, 2))])
zipped("bad-not-npy.npz", [("readme.txt", b"hello")])
zipped("bad-no-magic.npz", [("x.npy", b"hello, hello, hello")])
zipped("bad-lying-shape.npz", [("x.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n", b"\0" * 8))])
zipped("bad-overflow-shape.npz", [("x.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }\n"))])
zipped("bad-shape-digits.npz", [("x.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999999,), }\n"))])
zipped("bad-header.npz", [("x.npy", npy("{'descr': '<f8', 'shape': (1,) }\n", b"\0" * 8))])
zipped("bad-no-type.npz", [("x.npy", npy("{'descr': '', 'fortran_order': False, 'shape': (100000,), }\n"))])
zipped("bad-header-code.npz", [("x.npy", npy("__import__('os')\n"))])
zipped("bad-header-length.npz", [("x.npy", b"\x93NUMPY\1\0\xff\xff{}")])
zipped("bad-version.npz", [("x.npy", npy("{}", version=9))])
zipped("bad-bool.npz", [("x.npy", npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }\n", b"\1\2"))])
zipped("bad-bzip2.npz", [("x.npy", npy("{}"))], zipfile.ZIP_BZIP2)
zipped("bad-bomb.npz", [("x.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3000000,), }\n", b"\0" * 3000000))], zipfile.ZIP_DEFLATED)
import warnings
warnings.simplefilter("ignore")
zipped("bad-twice.npz", [("x.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (), }\n", b"\0" * 8))] * 2)
good = content("npz", "good-savez.npz")
data = bytearray(good)
data[good.index(b"x.npy") + 40 + 128] ^= 1
save("npz", "bad-crc.npz", bytes(data))
data = bytearray(content("npz", "good-compressed.npz"))
at = data.index(b"PK\1\2")
data[at + 24:at + 28] = struct.pack("<I", 50)
save("npz", "bad-size-less.npz", bytes(data))
data[at + 24:at + 28] = struct.pack("<I", 0x7fffffff)
save("npz", "bad-size-more.npz", bytes(data))
data = bytearray(good)
at = data.index(b"PK\1\2")
data[at + 42:at + 46] = struct.pack("<I", 0x7fffffff)
save("npz", "bad-offset.npz", bytes(data))
save("npz", "bad-empty.npz", b"")
# zip64: sizes and offsets of the member and of the directory in 8 bytes
body = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }\n", struct.pack("<d", 1.5))
import zlib
crc = zlib.crc32(body)
local = struct.pack("<IHHHHHIIIHH", 0x04034b50, 45, 0, 0, 0, 33, crc, 0xffffffff, 0xffffffff, 5, 20) + b"x.npy" + struct.pack("<HHQQ", 1, 16, len(body), len(body))
extra = struct.pack("<HHQQQ", 1, 24, len(body), len(body), 0)
central = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 45, 45, 0, 0, 0, 33, crc, 0xffffffff, 0xffffffff, 5, len(extra), 0, 0, 0, 0, 0xffffffff) + b"x.npy" + extra
at = len(local) + len(body)
end64 = struct.pack("<IQHHIIQQQQ", 0x06064b50, 44, 45, 45, 0, 0, 1, 1, len(central), at)
locator = struct.pack("<IIQI", 0x07064b50, 0, at + len(central), 1)
end = struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 0xffff, 0xffff, 0xffffffff, 0xffffffff, 0)
save("npz", "good-zip64.npz", local + body + central + end64 + locator + end)
save("npz", "bad-zip64-locator.npz", local + body + central + end64 + end)


def archive(name, members, local=None, where=None):
    """Writes deflated members (name, packed, size, crc) as the directory lists them. local: {name:
    fields of a member's own header}, where: {name: offset in the directory}, if they differ."""
    data, directory = b"", b""
    for k, packed, size, crc in members:
        at = (where or {}).get(k, len(data))
        method, flags, *fields = (local or {}).get(k, (8, 0, crc, len(packed), size))
        data += struct.pack("<IHHHHHIIIHH", 0x04034b50, 20, flags, method, 0, 33, *fields, len(k), 0) + k.encode() + packed
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 20, 20, 0, 8, 0, 33, crc, len(packed), size, len(k), 0, 0, 0, 0, 0, at) + k.encode()
    save("npz", name, data + directory + struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, len(members), len(members), len(directory), len(data), 0))


def deflate(data):
    c = zlib.compressobj(9, zlib.DEFLATED, -15)
    return c.compress(data) + c.flush()


whole = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }\n", struct.pack("<4d", 1, 2, 3, 4))
one = ("x.npy", deflate(whole), len(whole), zlib.crc32(whole))
archive("good-deflated.npz", [one])
archive("good-sizes-behind.npz", [one], local={"x.npy": (8, 8, 0, 0, 0)})
archive("bad-both-less.npz", [("x.npy", deflate(whole + bytes(8)), len(whole), zlib.crc32(whole))])
archive("bad-both-more.npz", [("x.npy", deflate(whole[:-8]), len(whole), zlib.crc32(whole))])
archive("bad-own-size.npz", [one], local={"x.npy": (8, 0, one[3], len(one[1]), 1 << 20)})
archive("bad-own-method.npz", [one], local={"x.npy": (0, 0, one[3], len(one[1]), one[2])})
huge = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2147483648,), }\n")
archive("bad-ratio.npz", [("x.npy", deflate(huge + bytes(1000)), len(huge) + (1 << 31), 0)])
small = npy("{'descr': '|b1', 'fortran_order': False, 'shape': (500000,), }\n", bytes(500000))
archive("bad-many.npz", [(f"{k}.npy", deflate(small), len(small), zlib.crc32(small)) for k in "abcdefgh"])
zeros = npy("{'descr': '|b1', 'fortran_order': False, 'shape': (40000000,), }\n", bytes(40000000))
archive("bad-inflation.npz", [("x.npy", deflate(zeros), len(zeros), zlib.crc32(zeros))])
inner = struct.pack("<IHHHHHIIIHH", 0x04034b50, 20, 0, 8, 0, 33, *(one[3], len(one[1]), one[2]), 5, 0) + b"y.npy" + one[1]
archive("bad-overlap.npz", [("x.npy", inner, 1000, 0), ("y.npy", one[1], one[2], one[3])], where={"y.npy": 35})


def safe(name, header, data=b"", length=None):
    h = header if isinstance(header, bytes) else json.dumps(header).encode()
    save("safetensors", name, struct.pack("<Q", len(h) if length is None else length) + h + data)


def t(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


types = [("F64", "<f8"), ("F32", "<f4"), ("I64", "<i8"), ("I32", "<i4"), ("I16", "<i2"), ("I8", "i1"), ("U64", "<u8"), ("U32", "<u4"), ("U16", "<u2"), ("U8", "u1"), ("BOOL", "?")]
header, data = {"__metadata__": {"format": "np"}}, b""
for name, code in types:
    v = np.array([[0, 1], [1, 0]], dtype=code).tobytes()
    header[name.lower()] = t(name, [2, 2], len(data), len(data) + len(v))
    data += v
safe("good-types.safetensors", header, data)
safe("bad-all-one.safetensors", {f"t{i}": t("U8", [64], 0, 64) for i in range(64)}, b"\0" * 64)
safe("good-order.safetensors", {"b": t("F32", [2], 4, 12), "a": t("F32", [], 0, 4), "e": t("F32", [0, 5], 12, 12)}, b"\0" * 12)
safe("good-padded.safetensors", b'{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}      ', b"\0" * 8)
safe("good-empty.safetensors", {})
cuts("safetensors", "good-types.safetensors")
safe("bad-hole.safetensors", {"a": t("F32", [1], 0, 4), "b": t("F32", [1], 8, 12)}, b"\0" * 12)
safe("bad-overlap.safetensors", {"a": t("F32", [2], 0, 8), "b": t("F32", [1], 4, 8)}, b"\0" * 8)
safe("bad-outside.safetensors", {"a": t("F32", [4], 0, 16)}, b"\0" * 8)
safe("bad-behind.safetensors", {"a": t("F32", [1], 0, 4)}, b"\0" * 8)
safe("bad-shape.safetensors", {"a": t("F32", [3], 0, 8)}, b"\0" * 8)
safe("bad-overflow.safetensors", {"a": t("F32", [1 << 40, 1 << 40], 0, 8)}, b"\0" * 8)
safe("bad-negative.safetensors", {"a": t("F32", [-1], 0, 8)}, b"\0" * 8)
safe("bad-backwards.safetensors", {"a": t("F32", [1], 4, 0)}, b"\0" * 8)
safe("bad-half.safetensors", {"a": t("F16", [2], 0, 4)}, b"\0" * 4)
safe("bad-key.safetensors", {"a": dict(t("F32", [1], 0, 4), stride=1)}, b"\0" * 4)
safe("bad-no-shape.safetensors", {"a": {"dtype": "F32", "data_offsets": [0, 4]}}, b"\0" * 4)
safe("bad-three-offsets.safetensors", {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 4]}}, b"\0" * 4)
safe("bad-metadata.safetensors", {"__metadata__": {"n": 1}})
safe("bad-twice.safetensors", b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', b"\0" * 4)
safe("bad-array.safetensors", b"[]")
safe("bad-rank-9.safetensors", {"a": t("F32", [1] * 9, 0, 4)}, b"\0" * 4)
safe("bad-big-integer.safetensors", {"a": t("U64", [1], 0, 8)}, b"\xff" * 8)
safe("bad-length.safetensors", b"{}", length=1 << 62)
safe("bad-length-by-one.safetensors", b"{}", length=3)

for name, text in {
    "good-job": open("deploy/jobs/qcnn.json").read(), "good-values": '[null,true,false,0,-1.5e-3,"\\u00e9\\ud83d\\ude00",{"a":{"b":[]}}]', "good-blanks": " \t\r\n{ } \n",
    "bad-deep": "[" * 65 + "]" * 65, "bad-twice": '{"a":1,"\\u0061":2}', "bad-big": "[9007199254740993]", "bad-range": "1e999", "bad-nul": '"\\u0000"', "bad-surrogate": '"\\ud800"',
    "bad-comma": "[1,]", "bad-tail": "{} {}", "bad-cut": '{"model":[{"layer":"quan', "bad-control": '"\x01"', "bad-zero": "-01", "bad-nan": "[NaN]", "bad-comment": "/**/1",
    "bad-long-number": "0." + "1" * 100, "good-long-string": '"' + "x" * 300 + '"', "bad-empty": ""}.items():
    save("json", f"{name}.json", text.encode())
save("json", "bad-utf8.json", b'"\xff\xfe"')
save("json", "good-bom.json", b'\xef\xbb\xbf{"a":1}')
save("json", "bad-utf16.json", '{"a":1}'.encode("utf-16"))

for name, text in {
    "good-plain": "x,y\n1,2\n3,4\n", "good-quoted": '"a ""b"", c",y\r\n"1",-2e3\r\n', "good-nan": "x\nnan\n-inf\nInfinity\n", "good-header-only": "a,b,c", "good-mac": "x,y\r1,2\r",
    "bad-short": "x,y\n1\n", "bad-long": "x,y\n1,2,3\n", "bad-word": "x,y\n1,two\n", "bad-quote": 'x\n"1\n', "bad-after-quote": 'x\n"1"2\n', "bad-blank": "x,y\n\n1,2\n",
    "bad-twice": "x,x\n1,2\n", "bad-nameless": ",x\n0,1\n", "bad-semicolon": "x;y\n1;2\n", "bad-empty": "", "bad-empty-cell": "x,y\n,1\n", "bad-hex": "x\n0x1p3\n"}.items():
    save("csv", f"{name}.csv", text.encode())
save("csv", "good-bom.csv", b"\xef\xbb\xbfx\n1\n")
save("csv", "bad-utf8.csv", b"\xff,y\n1,2\n")
save("csv", "bad-nul.csv", b"x\n1\x002\n")
