"""What rendered manifests promise beyond their schema. Prints each promise that is not kept; exit 1.
    objects.py safe FILE...         restricted pods, requests = limits, selectors and references that meet, names that fit
    objects.py scaled FILE FILE     the same release at two sizes: which fields differ, one a line
    objects.py command FILE NAME    the command of the pods that the ring of that name has (NAME-ps: of its parameter servers, NAME-eval: of its evaluator), with its environment, for a shell
    objects.py secret FILE FOLDER   the files of its one Secret, as a pod has them
    objects.py builtin FILE...      the objects in them of kinds that are Kubernetes' own
    objects.py closed SCHEMA        a values schema without room for unknown keys"""
import base64
import json
import os
import re
import shlex
import sys

import yaml

bad = []


def hold(what, fact):
    if not fact:
        bad.append(what)


def objects(path):
    with open(path, encoding="utf-8") as f:
        return [d for d in yaml.safe_load_all(f) if d is not None]


# who runs a ring's pods, and with which restartPolicy; the training operator puts its own into the pods
RESTARTS = {"Job": "Never", "JobSet": "Never", "TrainingRuntime": "Never", "ClusterTrainingRuntime": "Never", "StatefulSet": "Always", "TFJob": None}


def jobset_of(d):
    """The JobSet's spec in it, or None."""
    return d["spec"] if d["kind"] == "JobSet" else d["spec"]["template"]["spec"] if d["kind"].endswith("TrainingRuntime") else None


def job_of(d):
    """The Job's spec in it, or None."""
    if d["kind"] == "Job":
        return d["spec"]
    within = jobset_of(d)
    return within["replicatedJobs"][0]["template"]["spec"] if within else None


def template_of(d):
    if d["kind"] == "TFJob":
        return d["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    return (job_of(d) or d["spec"])["template"]


def servers_of(d):
    """The template of the parameter servers in it, beside the workers'; None where they have an object of their own, or there are none."""
    if d["kind"] == "TFJob":
        return d["spec"]["tfReplicaSpecs"].get("PS", {}).get("template")
    within = jobset_of(d)
    others = within["replicatedJobs"][1:] if within else []
    return others[0]["template"]["spec"]["template"] if others else None


def evaluator_of(d):
    """The template of the evaluator in it; None where there is none, or it has a Job of its own."""
    return d["spec"]["tfReplicaSpecs"].get("Evaluator", {}).get("template") if d["kind"] == "TFJob" else None


def evaluates(template):
    return template["metadata"]["labels"].get("app.kubernetes.io/component") == "evaluator"


def evaluator(name, template, workers, restart):
    """An evaluator: the workers' flags, keys and place, no certificate, and no port for peers but the one that an operator wants."""
    pod, ring_pod = template["spec"], workers["spec"]
    container, worker = pod["containers"][0], ring_pod["containers"][0]
    restricted(name, pod, restart)
    probed(name, container, {2222, 8080} if restart is None else {8080})
    hold(name + ": another component", evaluates(template))
    told = [a for a in worker["args"] if not a.startswith(("--tls-dir", "--plaintext"))]
    role = [] if restart is None else ["--role=evaluator"]
    hold(name + ": the workers' flags, and its role where TF_CONFIG does not say it", container["args"] == told + role)
    hold(name + ": the workers' keys", environment(pod).get("QRING_SET") == environment(ring_pod).get("QRING_SET"))
    hold(name + ": nothing that makes it a worker", not {"QRING_ROLE", "QRING_PEER_TEMPLATE", "QRING_PARAMETER_SERVERS"} & set(environment(pod)))
    hold(name + ": no key", "tls" not in {v["name"] for v in pod["volumes"]})
    places = [[v for v in p["volumes"] if v["name"] == "out"] for p in (pod, ring_pod)]
    shared = "persistentVolumeClaim" in places[0][0] and places[0] == places[1]
    hold(name + ": a place that it shares with them", shared or any(re.match("--weights=(gs|s3)://", a) for a in told))


def environment(pod):
    return {e["name"]: e.get("value") for e in pod["containers"][0].get("env", [])}


def serves(d):
    return environment(template_of(d)["spec"]).get("QRING_ROLE") == "ps"


def servers(name, template, workers, restart, known):
    """Parameter servers: pods like the workers', of the same ring, and never on Spot nodes."""
    pod, env = template["spec"], environment(template["spec"])
    restricted(name, pod, restart)
    probed(name, pod["containers"][0])
    encrypted(name, pod, known)
    hold(name + ": not on Spot nodes", "gke-spot" not in json.dumps(pod))
    hold(name + ": another component", template["metadata"]["labels"]["app.kubernetes.io/component"] == "ps")
    for key in ("QRING_PARAMETER_SERVERS", "QRING_PEER_TEMPLATE"):
        hold("%s: the workers' %s" % (name, key), env.get(key) == environment(workers["spec"]).get(key))
    hold(name + ": its role, but in a TFJob", (env.get("QRING_ROLE") == "ps") == ("QRING_PARAMETER_SERVERS" in env))


def restricted(name, pod, restart):
    """Pod Security Standards, restricted, and what this chart adds."""
    own = pod["securityContext"]
    hold(name + ": runAsNonRoot as 65532", own.get("runAsNonRoot") is True and own.get("runAsUser") == own.get("runAsGroup") == 65532)
    hold(name + ": seccomp RuntimeDefault", own.get("seccompProfile") == {"type": "RuntimeDefault"})
    hold(name + ": no token", pod.get("automountServiceAccountToken") is False)
    host = ("hostNetwork", "hostPID", "hostIPC", "initContainers", "shareProcessNamespace")
    hold(name + ": nothing of the host", not any(pod.get(k) for k in host))
    hold(name + ": restartPolicy %s" % restart, pod.get("restartPolicy") == restart)
    allowed = {"configMap", "emptyDir", "persistentVolumeClaim", "secret", "projected", "csi", "ephemeral", "downwardAPI"}
    for volume in pod["volumes"]:
        hold("%s: volume %s" % (name, volume["name"]), set(volume) - {"name"} <= allowed)
    for c in pod["containers"]:
        context = c["securityContext"]
        hold(name + ": no privilege", context.get("allowPrivilegeEscalation") is False and not context.get("privileged"))
        hold(name + ": no capability", context.get("capabilities") == {"drop": ["ALL"]})
        hold(name + ": read-only root", context.get("readOnlyRootFilesystem") is True)
        requests, limits = c["resources"]["requests"], c["resources"]["limits"]
        hold(name + ": requests = limits", requests == limits and set(limits) == {"cpu", "memory"})
        hold(name + ": termination message", c["terminationMessagePolicy"] == "FallbackToLogsOnError")
        mounts = {m["name"]: m for m in c["volumeMounts"]}
        hold(name + ": every mount has a volume", set(mounts) <= {v["name"] for v in pod["volumes"]})
        job = mounts.get("job", {}).get("readOnly")
        hold(name + ": the job file is read-only, where there is one", job is ("/etc/qring/job.json" in c["args"] or None))
        hold(name + ": one image, by tag or digest", re.match(r"[^:@]+(:[^:@/]+|@sha256:[0-9a-f]{64})$", c["image"]))


def encrypted(name, pod, known):
    """A ring's pods have the folder of a Secret, and say so; or none, and say that."""
    c = pod["containers"][0]
    volume = [v for v in pod["volumes"] if v["name"] == "tls"]
    mount = [m for m in c["volumeMounts"] if m["name"] == "tls"]
    hold(name + ": TLS or plaintext, one of them", ("--tls-dir=/etc/qring/tls" in c["args"]) != ("--plaintext" in c["args"]))
    hold(name + ": TLS with a volume", ("--tls-dir=/etc/qring/tls" in c["args"]) == bool(volume) == bool(mount))
    if not volume:
        return
    hold(name + ": its folder, read-only, which can change", mount == [{"name": "tls", "mountPath": "/etc/qring/tls", "readOnly": True}])
    source = volume[0]["secret"]
    hold(name + ": the key is for its group", source.get("defaultMode") == 0o440 and pod["securityContext"]["fsGroup"] == 65532)
    made = known.get(("Secret", source["secretName"]))
    if made:
        hold(name + ": a TLS Secret", made["type"] == "kubernetes.io/tls")
        hold(name + ": without the CA's key", set(made["data"]) == {"tls.crt", "tls.key", "ca.crt"})
        keys = [k for k, v in made["data"].items() if b"PRIVATE KEY" in base64.b64decode(v)]
        hold(name + ": one key in it", keys == ["tls.key"])
    for d in (d for d in known.values() if d["kind"] == "Certificate"):
        hold(name + ": the Certificate's Secret", d["spec"]["secretName"] == source["secretName"])
        hold(name + ": whose names are the job's", d["spec"]["uris"] == ["qring://default/%s" % pod["subdomain"]])
        names = ["*.%s.default.svc" % pod["subdomain"], "%s.default.svc" % pod["subdomain"]]
        hold(name + ": and the pods'", d["spec"]["dnsNames"] == names)
        hold(name + ": for both ends", d["spec"]["usages"] == ["digital signature", "server auth", "client auth"])


def policy_of_failures(name, spec):
    ignore, fail = spec["podFailurePolicy"]["rules"]
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    hold(name + ": a disruption is no failure", ignore == {"action": "Ignore", "onPodConditions": disrupted})
    codes = fail["onExitCodes"]
    hold(name + ": 1-127 end the Job", fail["action"] == "FailJob" and codes["operator"] == "In" and codes["values"] == list(range(1, 128)))
    hold(name + ": its own container's", codes["containerName"] in [c["name"] for c in spec["template"]["spec"]["containers"]])


def selects(selector, labels):
    return bool(selector) and all(labels.get(k) == v for k, v in selector.items())


def chosen(selector, labels):
    not_in = [(e["key"], e["values"]) for e in selector.get("matchExpressions", []) if e["operator"] == "NotIn"]
    return selects(selector["matchLabels"], labels) and all(labels.get(key) not in values for key, values in not_in)


def probed(name, container, ports=frozenset({2222, 2224, 8080})):
    hold(name + ": ports", {p["containerPort"] for p in container["ports"]} == ports)
    probes = [container[p]["httpGet"]["path"] for p in ("startupProbe", "readinessProbe", "livenessProbe")]
    hold(name + ": probes", probes == ["/readyz", "/readyz", "/healthz"])
    startup = container["startupProbe"]
    # an operation on a bucket before the port opens may be tried again for 600 s: two of them, and the worker's own end comes first
    hold(name + ": time to start", startup["periodSeconds"] * startup["failureThreshold"] >= 1300)


def elsewhere(name, d, known):
    """What the ways to launch other than a Job promise."""
    spec, pod = d["spec"], template_of(d)["spec"]
    container = pod["containers"][0]
    env = {e["name"]: e.get("value") for e in container.get("env", [])}
    kind = d["kind"].replace("Cluster", "")
    called = {"StatefulSet": "qringd", "JobSet": "qringd", "TFJob": "tensorflow", "TrainingRuntime": "node"}[kind]
    hold(name + ": the container that its controller looks for", [c["name"] for c in pod["containers"]] == [called])
    hold(name + ": a bucket for checkpoints, since pods have nothing in common", any(a.startswith("--weights=gs://") for a in container["args"]))
    ring_name = name[:-3] if serves(d) else name
    peers = {"StatefulSet": ring_name + "-{i}.%s:2222" % ring_name, "JobSet": name + "-workers-0-{i}.%s:2222" % name,
             "TFJob": name + "-worker-{i}:2222" if "PS" in spec.get("tfReplicaSpecs", {}) else None, # else by TF_CONFIG
             "TrainingRuntime": "$(JOBSET_NAME)-node-0-{i}.$(JOBSET_NAME):2222"}[kind]
    hold(name + ": peers by the names that the controller gives", env.get("QRING_PEER_TEMPLATE") == peers)
    if d["kind"] == "StatefulSet":
        service = known["Service", spec["serviceName"]]["spec"]
        hold(name + ": names before readiness", service["publishNotReadyAddresses"] is True and service["clusterIP"] == "None")
        hold(name + ": the selectors", selects(service["selector"], template_of(d)["metadata"]["labels"]) and
             selects(spec["selector"]["matchLabels"], template_of(d)["metadata"]["labels"]))
        hold(name + ": all at once", spec["podManagementPolicy"] == "Parallel")
    elif d["kind"] == "TFJob":
        worker = spec["tfReplicaSpecs"]["Worker"]
        hold(name + ": codes decide, and all must end", worker["restartPolicy"] == "ExitCode" and spec["successPolicy"] == "AllWorkers")
        hold(name + ": the operator's port", container["ports"][0] == {"name": "tfjob-port", "containerPort": 2222})
    else:
        within = jobset_of(d)
        hold(name + ": 1-127 end it", within["failurePolicy"]["rules"] == [
            {"name": "permanent", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}])
        job = job_of(d)
        hold(name + ": Indexed", job["completionMode"] == "Indexed" and job["completions"] == job["parallelism"])
        hold(name + ": the controller's Service is not ours", ("Service", name) not in known and "subdomain" not in pod)


def ring(name, job, known):
    spec = job["spec"]
    template = spec["template"]
    pod, labels = template["spec"], template["metadata"]["labels"]
    container = pod["containers"][0]
    env = {e["name"]: e for e in container["env"]}
    service = known.get(("Service", pod["subdomain"]))
    hold(name + ": Indexed, as many at once as in all", spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"])
    hold(name + ": a headless Service of that name", service and service["spec"]["clusterIP"] == "None")
    if service:
        hold(name + ": names before readiness", service["spec"]["publishNotReadyAddresses"] is True)
        hold(name + ": the Service selects the pods", selects(service["spec"]["selector"], labels))
        targets = {p["targetPort"] for p in service["spec"]["ports"]}
        hold(name + ": the Service's ports are the container's", targets == {p["name"] for p in container["ports"]})
    ring_name = name[:-3] if serves(job) else name
    hold(name + ": peers by the pods' names", env["QRING_PEER_TEMPLATE"]["value"] == "%s-{i}.%s:2222" % (ring_name, pod["subdomain"]))
    hold(name + ": a pod's name fits", len("%s-%d-abcde" % (name, spec["completions"] - 1)) <= 63)
    hold(name + ": tries are bounded", ("backoffLimit" in spec) != ("backoffLimitPerIndex" in spec))
    hold(name + ": one index that has none left ends the Job", spec.get("maxFailedIndexes", 0) == 0)


def trials(name, spec, container):
    hold(name + ": Indexed, as many at once as in all", spec["completions"] == spec["parallelism"])
    hold(name + ": tries are bounded", ("backoffLimit" in spec) != ("backoffLimitPerIndex" in spec))
    shared = any(a.startswith("--to=") for a in container["args"])
    hold(name + ": a place that all pods see", shared or any("persistentVolumeClaim" in v for v in spec["template"]["spec"]["volumes"]))


def evicted(budget, rings):
    """All but so many of a ring's pods are ready while one is evicted: a number that the controller can compare, for the pods that there are."""
    name, spec = "the budget", budget["spec"]
    (wanted,) = spec["selector"]["matchExpressions"]
    component = lambda template: template["metadata"]["labels"]["app.kubernetes.io/component"]
    own = [d for d in rings if component(template_of(d)) in wanted["values"]]
    hold(name + ": of the ring's pods, and not of helm test's", own and wanted["operator"] == "In" and "test" not in wanted["values"])
    n = 0
    for d in own:
        for template in filter(None, (template_of(d), servers_of(d))):
            hold(name + ": selects " + d["metadata"]["name"], selects(spec["selector"]["matchLabels"], template["metadata"]["labels"]) and
                 component(template) in wanted["values"])
        job, tf = job_of(d), d["spec"].get("tfReplicaSpecs", {})
        n += job["completions"] if job else sum(r["replicas"] for r in tf.values() if not evaluates(r["template"])) if tf else d["spec"]["replicas"]
        if d["kind"] == "JobSet":
            n += sum(r["template"]["spec"]["completions"] for r in d["spec"]["replicatedJobs"][1:]
                     if not evaluates(r["template"]["spec"]["template"]))
    scales = {d["kind"] for d in own} == {"StatefulSet"}
    hold(name + ": by a number that its controllers have", ("maxUnavailable" in spec) == scales and ("minAvailable" in spec) != scales)
    hold(name + ": one at a time, and always one", spec.get("maxUnavailable", 1) == 1 and spec.get("minAvailable", n - 1) == n - 1)
    hold(name + ": who is not ready holds nobody up", spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow")


def safe(path):
    all_objects = objects(path)
    known = {(d["kind"], d["metadata"]["name"]): d for d in all_objects}
    hold(path + ": each object once", len(known) == len(all_objects))
    jobs = [d for d in all_objects if d["kind"] in RESTARTS]
    hold(path + ": a Job or another who runs pods", jobs)
    for job in jobs:
        name, pod = job["metadata"]["name"], template_of(job)["spec"]
        hold("%s: at most 52 characters" % name, len(name) <= 52 and re.match(r"[a-z]([-a-z0-9]*[a-z0-9])?$", name))
        restricted(name, pod, RESTARTS[job["kind"]])
        if job_of(job):
            policy_of_failures(name, job_of(job))
        for volume in pod["volumes"]:
            if "configMap" in volume:
                got = known.get(("ConfigMap", volume["configMap"]["name"]), {"data": {}})["data"]
                hold(name + ": the ConfigMap has the job file", all(i["key"] in got for i in volume["configMap"]["items"]))
                hold(name + ": which is JSON", isinstance(json.loads(got.get("job.json", "null")), dict))
        if job["kind"] == "Job" and evaluates(template_of(job)):
            ring_of = [d for d in jobs if d["metadata"]["name"] == name[:-5]]
            hold(name + ": of a ring", len(ring_of) == 1)
            hold(name + ": tries are bounded", "backoffLimit" in job["spec"])
            evaluator(name, template_of(job), template_of(ring_of[0]), RESTARTS["Job"])
        elif job["kind"] != "Job":
            elsewhere(name, job, known)
        elif job["spec"].get("completionMode") and pod["containers"][0]["command"] == ["qringd"]:
            ring(name, job, known)
        elif job["spec"].get("completionMode"):
            trials(name, job["spec"], pod["containers"][0])
        if servers_of(job):
            servers(name + "'s servers", servers_of(job), template_of(job), RESTARTS[job["kind"]], known)
        elif serves(job):
            servers(name, template_of(job), template_of(known[job["kind"], name[:-3]]), RESTARTS[job["kind"]], known)
        if evaluator_of(job):
            evaluator(name + "'s evaluator", evaluator_of(job), template_of(job), RESTARTS[job["kind"]])
        if pod["containers"][0]["command"] == ["qringd"] and not evaluates(template_of(job)):
            probed(name, pod["containers"][0])
            encrypted(name, pod, known)
        policies = [d for d in all_objects if d["kind"] == "NetworkPolicy"]
        for template in filter(None, (template_of(job), evaluator_of(job))):
            ours = [p["spec"] for p in policies if chosen(p["spec"]["podSelector"], template["metadata"]["labels"])]
            hold(name + ": one policy selects the pods", len(ours) == min(len(policies), 1))
            for policy in ours:
                hold(name + ": the policy is for both ways", policy["policyTypes"] == ["Ingress", "Egress"])
                open_to = {p["port"] for way in ("ingress", "egress") for rule in policy[way] for p in rule["ports"]}
                hold(name + ": no peers for an evaluator", not evaluates(template) or not {2222, 2224} & open_to)
    for budget in (d for d in all_objects if d["kind"] == "PodDisruptionBudget"):
        evicted(budget, [d for d in jobs if template_of(d)["spec"]["containers"][0]["command"] == ["qringd"]])
    for d in all_objects:
        hold("%s: no namespace of its own" % d["metadata"]["name"], "namespace" not in d["metadata"])
        hold("%s: no key but in a Secret" % d["metadata"]["name"], d["kind"] == "Secret" or "PRIVATE KEY" not in json.dumps(d))
        if d["kind"] == "ServiceAccount":
            hold("the account: no token", d["automountServiceAccountToken"] is False)
        if d["kind"] == "Role":
            hold("the role: one object's patch", d["rules"] and all(r["verbs"] == ["patch"] for r in d["rules"]))


def flat(value, at=""):
    if isinstance(value, dict) and value:
        return {k2: v2 for k, v in value.items() for k2, v2 in flat(v, "%s.%s" % (at, k)).items()}
    if isinstance(value, list) and value:
        return {k2: v2 for i, v in enumerate(value) for k2, v2 in flat(v, "%s[%d]" % (at, i)).items()}
    return {at: value}


def scaled(a, b):
    a, b = ({"%s/%s" % (d["kind"], d["metadata"]["name"]): d for d in objects(p)} for p in (a, b))
    a, b = flat(a), flat(b)
    for key in sorted(set(a) | set(b)):
        if a.get(key) != b.get(key):
            print(key.lstrip("."))


def command(path, name):
    known = {(d["kind"], d["metadata"]["name"]): d for d in objects(path)}
    ours = {n: d for (kind, n), d in known.items() if kind in RESTARTS}
    ring_name = name if name in ours else name.rpartition("-")[0]
    beside = evaluator_of if name.endswith("-eval") else servers_of
    template = template_of(ours[name]) if name in ours else beside(ours[ring_name])
    name = ring_name
    container = template["spec"]["containers"][0]
    env = {}
    for e in container.get("env", []):
        source = e.get("valueFrom", {})
        if "replica-index" in json.dumps(source):
            continue # the caller says which pod it is
        if "configMapKeyRef" in source:
            value = known["ConfigMap", source["configMapKeyRef"]["name"]]["data"][source["configMapKeyRef"]["key"]]
        else:
            value = name if "fieldRef" in source else e["value"]  # the only field asked for is the JobSet's name: that of its TrainJob
        env[e["name"]] = re.sub(r"\$\((\w+)\)", lambda m: env[m.group(1)], value)  # as the kubelet does, with those before it
    words = ["env"] + ["%s=%s" % pair for pair in env.items()]
    print(" ".join(shlex.quote(w) for w in words + container["command"] + container["args"]))


def secret(path, folder):
    (d,) = [d for d in objects(path) if d["kind"] == "Secret"]
    texts = {k: base64.b64decode(v).decode() for k, v in d.get("data", {}).items()}
    os.makedirs(folder, exist_ok=True)
    for name, text in {**texts, **d.get("stringData", {})}.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)


def builtin(*paths):
    print(yaml.safe_dump_all([d for p in paths for d in objects(p) if d["apiVersion"] in ("v1", "apps/v1", "batch/v1", "networking.k8s.io/v1", "policy/v1",
                                                                             "scheduling.k8s.io/v1beta1")]))


def closed(schema, at="values"):
    if isinstance(schema, dict):
        if "properties" in schema:
            hold(at + ": additionalProperties", schema.get("additionalProperties") is False)
        for k, v in schema.items():
            if k not in ("if", "then", "else"):  # conditions on the object that is closed already
                closed(v, at + "." + k)


def main():
    what, args = sys.argv[1], sys.argv[2:]
    if what == "safe":
        for path in args:
            safe(path)
    elif what == "closed":
        with open(args[0], encoding="utf-8") as f:
            closed(json.load(f))
    else:
        {"scaled": scaled, "command": command, "secret": secret, "builtin": builtin}[what](*args)
    for b in bad:
        print("not so: " + b, file=sys.stderr)
    sys.exit(1 if bad else 0)


main()
