"""The objects of a manifest, for this cluster: read, changed where the test must, applied in the case's namespace, removed."""
import yaml

from kube import CLUSTER_WIDE, until
from world import METADATA, STORE, api, check, here, manifests, run, secret


def pod_specs(value):
    """Every pod's template in an object, whatever its kind."""
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        else:
            for v in value.values():
                yield from pod_specs(v)
    elif isinstance(value, list):
        for v in value:
            yield from pod_specs(v)


def ours(objects, bucket, **more):
    """The objects of a manifest for this cluster: bucket and weights' name are ours, two processors are enough for all its pods, and the
    variables that say where storage is and what to train are the test's. Nothing else changes."""
    for d in objects:
        for spec in pod_specs(d.get("spec", {})):
            for c in spec["containers"]:
                c.setdefault("resources", {}).setdefault("requests", {})["cpu"] = "100m"
                env = {"STORAGE_EMULATOR_HOST": STORE, "GCE_METADATA_HOST": METADATA, **more}
                c["env"] = (c.get("env") or []) + [{"name": k, "value": v} for k, v in env.items()]
    return objects


def read(file, bucket, **more):
    with open("%s/%s" % (manifests, file), encoding="utf-8") as f:
        text = f.read().replace("my-bucket", bucket).replace("qcnn_weights.h5", "qcnn/weights.h5")
    return ours([d for d in yaml.safe_load_all(text) if d], bucket, **more)


def big(objects):
    """With the job of the undisturbed run where the manifest has a job."""
    for d in objects:
        if d["kind"] == "ConfigMap" and "job.json" in d["data"]:
            with open("deploy/jobs/qcnn-pure-12.json", encoding="utf-8") as f:
                d["data"]["job.json"] = f.read()
    return objects


def apply(objects):
    """Server-side, as the pages say. A runtime is not there at once for the webhook of the TrainJob that names it."""
    for d in objects:
        if d["kind"] not in CLUSTER_WIDE:
            d["metadata"]["namespace"] = here.space
        if d["kind"] == "TFJob":
            name = d["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"].get("serviceAccountName")
            if name and not api.find(api.path("v1", "ServiceAccount", here.space, name)):
                api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": here.space}})
        if d["kind"] == "TrainJob":
            until(lambda d=d: api.apply(d), 20)
        else:
            api.apply(d)


def gone(seconds=90):
    return check("%s: everything is gone" % here.space, until(lambda: not api.list("v1", "Pod", here.space), seconds))


def remove(objects):
    for d in reversed(objects):
        api.delete(api.path_of(d), propagationPolicy="Background")
    gone()


def with_secret(objects, name="qcnn"):
    return [yaml.safe_load(secret(name))] + objects


def bucket_rules(objects):
    """What the component deploy/kustomize/gcs adds to the policy of a manifest that knows no bucket."""
    for d in objects:
        if d["kind"] == "NetworkPolicy":
            d["spec"]["egress"] += [{"ports": [{"port": 443, "protocol": "TCP"}]},
                                    {"to": [{"ipBlock": {"cidr": METADATA + "/32"}}], "ports": [{"port": 80, "protocol": "TCP"}]}]
    return objects


def plain(bucket, passes, **more):
    """The Indexed Job, which knows no bucket, with one."""
    weights = "gs://%s/qcnn/weights.h5" % bucket
    return bucket_rules(big(read("qcnn.yaml", bucket, QRING_EPOCHS=passes, QRING_WEIGHTS=weights, **more)))
