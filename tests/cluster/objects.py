"""Objects of a manifest: read, adapted to this cluster, applied in the case's namespace,
removed."""
import yaml

from kube import CLUSTER_WIDE, until
from world import METADATA, STORE, api, check, here, manifests, run, secret


def pod_specs(value):
    """Every pod template in an object of any kind."""
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        else:
            for v in value.values():
                yield from pod_specs(v)
    elif isinstance(value, list):
        for v in value:
            yield from pod_specs(v)


def adapt(objects, bucket, **more):
    """Adapts a manifest's objects to this cluster: CPU requests that fit two processors, and
    variables for storage and the test's settings."""
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
    return adapt([d for d in yaml.safe_load_all(text) if d], bucket, **more)


def with_large_job(objects):
    """Replaces the manifest's job, if any, by that of the undisturbed run."""
    for d in objects:
        if d["kind"] == "ConfigMap" and "job.json" in d["data"]:
            with open("deploy/jobs/qcnn-pure-12.json", encoding="utf-8") as f:
                d["data"]["job.json"] = f.read()
    return objects


def apply(objects):
    """Server-side apply, as in the documentation. A TrainJob is retried: its webhook may not see
    the runtime yet."""
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


def check_gone(seconds=90):
    return check("%s: no pod remains" % here.space, until(lambda: not api.list("v1", "Pod", here.space), seconds))


def remove(objects):
    for d in reversed(objects):
        api.delete(api.path_of(d), propagationPolicy="Background")
    check_gone()


def with_secret(objects, name="qcnn"):
    return [yaml.safe_load(secret(name))] + objects


def bucket_rules(objects):
    """Adds the rules of deploy/kustomize/gcs to the policy of a manifest without a bucket."""
    for d in objects:
        if d["kind"] == "NetworkPolicy":
            d["spec"]["egress"] += [{"ports": [{"port": 443, "protocol": "TCP"}]},
                                    {"to": [{"ipBlock": {"cidr": METADATA + "/32"}}], "ports": [{"port": 80, "protocol": "TCP"}]}]
    return objects


def indexed_job(bucket, passes, **more):
    """The Indexed Job's manifest, with a bucket added."""
    weights = "gs://%s/qcnn/weights.h5" % bucket
    return bucket_rules(with_large_job(read("qcnn.yaml", bucket, QRING_EPOCHS=passes, QRING_WEIGHTS=weights, **more)))
