"""Manifests against Kubernetes' own schemas, unknown fields refused: strict.py FILE... prints what is wrong, exit 1.
CERTMANAGER: the folder of cert-manager's source, whose definition of a Certificate is taken then; without it the kind is unknown."""
import functools
import json
import os
import sys

import jsonschema
import yaml

SCHEMAS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "schemas")


def close(schema):
    """A schema that names properties knows all of them."""
    if isinstance(schema, dict):
        keep = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-embedded-resource")
        if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema and not keep:
            schema["additionalProperties"] = False
        for key, value in schema.items():
            if key != "enum" and key != "default":
                close(value)
    elif isinstance(schema, list):
        for value in schema:
            close(value)


def load(name):
    with open(os.path.join(SCHEMAS, name), encoding="utf-8") as f:
        return json.load(f)


def of_definition(crd):
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["metadata"] = {"type": "object"}
    close(schema)
    return schema


def certificate():
    with open(os.path.join(os.environ["CERTMANAGER"], "deploy", "crds", "crd-certificates.yaml"), encoding="utf-8") as f:
        return of_definition(yaml.safe_load(f))


DEFINITIONS = {("kubeflow.org/v1", "TFJob"): "crd-tfjob.json", ("jobset.x-k8s.io/v1alpha2", "JobSet"): "crd-jobset.json",
               ("trainer.kubeflow.org/v1alpha1", "TrainJob"): "crd-trainjobs.json",
               ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"): "crd-trainingruntimes.json"}


@functools.cache
def schema_of(api, kind):
    if (api, kind) in DEFINITIONS:
        return of_definition(load(DEFINITIONS[api, kind]))
    for known in load("monitoring.json") if api.startswith("monitoring.") else []:
        if (api, kind) == (known["group"] + "/" + known["version"], known["names"]["kind"]):
            close(known["schema"])
            return known["schema"]
    if api == "cert-manager.io/v1" and kind == "Certificate" and "CERTMANAGER" in os.environ:
        return certificate()
    whole = load("api__v1.json" if api == "v1" else "apis__%s__%s.json" % tuple(api.split("/")))
    group, _, version = api.rpartition("/")
    gvk = {"group": group, "kind": kind, "version": version}
    for key, schema in whole["components"]["schemas"].items():
        if gvk in schema.get("x-kubernetes-group-version-kind", []):
            close(whole["components"]["schemas"])
            return {"$ref": "#/components/schemas/" + key, "components": whole["components"]}
    raise KeyError("%s has no kind %s" % (api, kind))


def objects(path):
    with open(path, encoding="utf-8") as f:
        return [d for d in yaml.safe_load_all(f) if d is not None]


def main():
    bad = 0
    for path in sys.argv[1:]:
        documents = objects(path)
        if not documents:
            print(path + ": no objects")
            bad = 1
        for d in documents:
            try:
                errors = list(jsonschema.Draft7Validator(schema_of(d.get("apiVersion", ""), d.get("kind", ""))).iter_errors(d))
            except (KeyError, OSError) as e:
                print("%s: %s" % (path, e))
                bad = 1
                continue
            for e in errors:
                bad = 1
                where = "/".join(map(str, e.absolute_path))
                print("%s: %s %s: %s: %s" % (path, d["kind"], d["metadata"].get("name"), where, e.message[:160]))
    sys.exit(bad)


if __name__ == "__main__":
    main()
