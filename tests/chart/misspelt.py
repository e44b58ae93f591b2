"""Is a misspelt key found? misspelt.py MINOR FILE KEY... doubles the last letter of each key in turn, everywhere in FILE: our schemas must refuse that by
name, and so must Kubernetes 1.MINOR's own (kubernetes-validate) where the key is in one of its kinds. MINOR 0: only our schemas are asked."""
import re
import sys

import jsonschema
import kubernetes_validate
import strict
import yaml

minor, path, keys = sys.argv[1], sys.argv[2], sys.argv[3:]
known = {}
passed = failed = 0


def check(fact, what):
    global passed, failed
    passed, failed = passed + bool(fact), failed + (not fact)
    if not fact:
        print("not so: %s: %s" % (path, what))


def errors(d):
    kind = (d["apiVersion"], d["kind"])
    if kind not in known:
        known[kind] = jsonschema.Draft7Validator(strict.schema_of(*kind))
    return [e.message for e in known[kind].iter_errors(d)]


with open(path, encoding="utf-8") as f:
    text = f.read()
for key in keys:
    wrong = key + key[-1]
    other, n = re.subn(r"(?m)(^|[\s{,-])%s:" % re.escape(key), r"\1%s:" % wrong, text)
    if not n:
        check(False, "no %s to misspell" % key)
        continue
    documents = [d for d in yaml.safe_load_all(other) if d]
    said = [e for d in documents for e in errors(d)]
    check(said, "our schemas accept a misspelt " + key)
    check(any(wrong in e or "'%s' is a required" % key in e for e in said), "the refusal of %s does not name it: %s" % (key, said[:2]))
    builtin = [d for d in documents if d["apiVersion"] in ("v1", "apps/v1", "batch/v1", "networking.k8s.io/v1") and wrong + "'" in str(d)]
    if minor == "0" or not builtin:
        continue
    try:
        for d in builtin:
            kubernetes_validate.validate(d, "1." + minor, strict=True)
        check(False, "Kubernetes 1.%s accepts a misspelt %s" % (minor, key))
    except kubernetes_validate.ValidationError:
        check(True, "")
print("%d passed, %d failed, 0 skipped" % (passed, failed))
