#!/usr/bin/env python3
"""Writes the HDF5 files of tests/fuzz/corpus/hdf5 with h5py: valid weights files of other programs,
and malformed ones. h5cases.py DIR"""
import os
import sys

import h5py
import numpy as np

out = sys.argv[1]
VLEN = h5py.string_dtype("ascii")
UTF8 = h5py.string_dtype("utf-8")


def fill(root, names=VLEN, dtype="<f4", layers=("input_1", "dense"), split=0, **create):
    def strings(node, key, values):
        if split and values:
            for i in range(0, len(values), split):
                node.attrs[f"{key}{i // split}"] = np.array(values[i:i + split], dtype=names)
        else:
            node.attrs[key] = np.array(values, dtype=names) if values else np.array([], dtype="<f8")
    strings(root, "layer_names", list(layers))
    root.attrs["backend"] = "tensorflow"
    root.attrs["keras_version"] = "2.15.0"
    for layer in layers:
        g = root.create_group(layer)
        if layer.startswith("dense"):
            strings(g, "weight_names", [f"{layer}/kernel:0", f"{layer}/bias:0"])
            g.create_dataset(f"{layer}/kernel:0", data=np.arange(6).reshape(3, 2).astype(dtype) / 4, **create)
            g.create_dataset(f"{layer}/bias:0", data=np.array([1, -2]).astype(dtype), **create)
        else:
            strings(g, "weight_names", [])


def case(name, **more):
    libver = more.pop("libver", None)
    f = h5py.File(os.path.join(out, name), "w", libver=libver)
    return f, more


def simple(name, **more):
    f, more = case(name, **more)
    with f:
        fill(f, **more)


simple("good-vlen.h5")
simple("good-utf8.h5", names=UTF8)
simple("good-fixed.h5", names="S20")
simple("good-float64.h5", dtype="<f8")
simple("good-big-endian.h5", dtype=">f4")
simple("good-split.h5", split=1)
simple("good-many-layers.h5", layers=["input_1"] + [f"dense_{i}" for i in range(40)])
simple("bad-gzip.h5", chunks=True, compression="gzip")
simple("bad-chunks.h5", chunks=True)
simple("bad-latest.h5", libver="latest")
simple("bad-integers.h5", dtype="<i4")
with case("good-saved-model.h5")[0] as f:
    f.attrs["model_config"] = "{}"
    fill(f.create_group("model_weights"))
    f.create_group("optimizer_weights")
with case("good-spacepad.h5")[0] as f:
    fill(f)
    t = h5py.h5t.C_S1.copy()
    t.set_size(12)
    t.set_strpad(h5py.h5t.STR_SPACEPAD)
    del f.attrs["layer_names"]
    a = h5py.h5a.create(f.id, b"layer_names", t, h5py.h5s.create_simple((2,)))
    a.write(np.array([b"input_1     ", b"dense       "]), mtype=t)
with case("good-compact.h5")[0] as f:
    fill(f)
    g = f["dense/dense"]
    del g["bias:0"]
    p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    p.set_layout(h5py.h5d.COMPACT)
    d = h5py.h5d.create(g.id, b"bias:0", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((2,)), p)
    d.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([1, -2], dtype="<f4"))
with case("bad-soft-link.h5")[0] as f:
    fill(f)
    del f["dense/dense/bias:0"]
    f["dense/dense/bias:0"] = h5py.SoftLink("/dense/dense/kernel:0")
with case("bad-external-link.h5")[0] as f:
    fill(f)
    del f["dense/dense/bias:0"]
    f["dense/dense/bias:0"] = h5py.ExternalLink("/etc/passwd", "/x")
with case("bad-missing-weight.h5")[0] as f:
    fill(f)
    del f["dense/dense/bias:0"]
with case("bad-missing-layer.h5")[0] as f:
    fill(f)
    del f["dense"]
with case("bad-no-weight-names.h5")[0] as f:
    fill(f)
    del f["dense"].attrs["weight_names"]
with case("bad-no-layer-names.h5")[0] as f:
    f.create_dataset("x", data=np.zeros(3))
with case("bad-keras3.h5")[0] as f:
    f.create_group("layers/dense/vars")
with case("bad-number-names.h5")[0] as f:
    fill(f)
    f.attrs["layer_names"] = np.arange(2)
with case("bad-dataset-as-layer.h5")[0] as f:
    fill(f)
    del f["dense"]
    f.create_dataset("dense", data=np.zeros(3, dtype="<f4"))
with case("bad-huge.h5")[0] as f:
    fill(f)
    del f["dense/dense/bias:0"]
    f["dense"].create_dataset("dense/bias:0", shape=(1 << 40,), dtype="<f4")
