"""Checks rendered manifests beyond their schema. Prints each violation; exit 1.
    objects.py safe FILE...         restricted pods, requests = limits, matching selectors and references, lengths of names
    objects.py scaled FILE FILE     prints the fields that differ, one per line, of one release at two sizes
    objects.py command FILE NAME    prints the command of a ring's pods (NAME-ps: parameter servers, NAME-eval: evaluator), with its environment, for a shell
    objects.py secret FILE FOLDER   writes the files of the only Secret as a pod has them
    objects.py builtin FILE...      prints the objects of Kubernetes' own kinds
    objects.py closed SCHEMA        the values schema rejects unknown keys everywhere"""
import base64
import json
import os
import re
import shlex
import sys

import yaml

bad = []


def require(what, fact):
    if not fact:
        bad.append(what)


def objects(path):
    with open(path, encoding="utf-8") as f:
        return [d for d in yaml.safe_load_all(f) if d is not None]


# Kinds that run a ring's pods, and their restartPolicy; the training operator sets its own
RESTARTS = {"Job": "Never", "JobSet": "Never", "TrainingRuntime": "Never", "ClusterTrainingRuntime": "Never", "StatefulSet": "Always", "TFJob": None}


def jobset_of(d):
    """The spec of a JobSet in the object, or None."""
    return d["spec"] if d["kind"] == "JobSet" else d["spec"]["template"]["spec"] if d["kind"].endswith("TrainingRuntime") else None


def job_of(d):
    """The spec of a Job in the object, or None."""
    if d["kind"] == "Job":
        return d["spec"]
    within = jobset_of(d)
    return within["replicatedJobs"][0]["template"]["spec"] if within else None


def template_of(d):
    if d["kind"] == "TFJob":
        return d["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    return (job_of(d) or d["spec"])["template"]


def servers_of(d):
    """The pod template of parameter servers in the workers' object; None if they have their own
    object, or there are none."""
    if d["kind"] == "TFJob":
        return d["spec"]["tfReplicaSpecs"].get("PS", {}).get("template")
    within = jobset_of(d)
    others = within["replicatedJobs"][1:] if within else []
    return others[0]["template"]["spec"]["template"] if others else None


def evaluator_of(d):
    """The pod template of the evaluator in the object; None if it has its own Job, or there is
    none."""
    return d["spec"]["tfReplicaSpecs"].get("Evaluator", {}).get("template") if d["kind"] == "TFJob" else None


def evaluates(template):
    return template["metadata"]["labels"].get("app.kubernetes.io/component") == "evaluator"


def evaluator(name, template, workers, restart):
    """An evaluator has the workers' flags, job keys and output, no certificate, and no port for
    peers except one that an operator requires."""
    pod, ring_pod = template["spec"], workers["spec"]
    container, worker = pod["containers"][0], ring_pod["containers"][0]
    restricted(name, pod, restart)
    probed(name, container, {2222, 8080} if restart is None else {8080})
    require(name + ": another component", evaluates(template))
    flags = [a for a in worker["args"] if not a.startswith(("--tls-dir", "--plaintext"))]
    role = [] if restart is None else ["--role=evaluator"]
    require(name + ": the workers' flags, and its role unless TF_CONFIG has it", container["args"] == flags + role)
    require(name + ": the workers' keys", environment(pod).get("QRING_SET") == environment(ring_pod).get("QRING_SET"))
    require(name + ": no variable that makes it a worker", not {"QRING_ROLE", "QRING_PEER_TEMPLATE", "QRING_PARAMETER_SERVERS"} & set(environment(pod)))
    require(name + ": no key", "tls" not in {v["name"] for v in pod["volumes"]})
    places = [[v for v in p["volumes"] if v["name"] == "out"] for p in (pod, ring_pod)]
    shared = "persistentVolumeClaim" in places[0][0] and places[0] == places[1]
    require(name + ": an output that it shares with the workers", shared or any(re.match("--weights=(gs|s3)://", a) for a in flags))


def environment(pod):
    return {e["name"]: e.get("value") for e in pod["containers"][0].get("env", [])}


def serves(d):
    return environment(template_of(d)["spec"]).get("QRING_ROLE") == "ps"


def servers(name, template, workers, restart, known):
    """Parameter servers are pods of the same ring like the workers, never on Spot nodes."""
    pod, env = template["spec"], environment(template["spec"])
    restricted(name, pod, restart)
    probed(name, pod["containers"][0])
    encrypted(name, pod, known)
    require(name + ": not on Spot nodes", "gke-spot" not in json.dumps(pod))
    require(name + ": another component", template["metadata"]["labels"]["app.kubernetes.io/component"] == "ps")
    for key in ("QRING_PARAMETER_SERVERS", "QRING_PEER_TEMPLATE"):
        require("%s: the workers' %s" % (name, key), env.get(key) == environment(workers["spec"]).get(key))
    require(name + ": its role, except in a TFJob", (env.get("QRING_ROLE") == "ps") == ("QRING_PARAMETER_SERVERS" in env))


def restricted(name, pod, restart):
    """Pod Security Standards (restricted), and the chart's own rules."""
    own = pod["securityContext"]
    require(name + ": runAsNonRoot as 65532", own.get("runAsNonRoot") is True and own.get("runAsUser") == own.get("runAsGroup") == 65532)
    require(name + ": seccomp RuntimeDefault", own.get("seccompProfile") == {"type": "RuntimeDefault"})
    require(name + ": no token", pod.get("automountServiceAccountToken") is False)
    host = ("hostNetwork", "hostPID", "hostIPC", "initContainers", "shareProcessNamespace")
    require(name + ": no namespaces of the host, no init containers", not any(pod.get(k) for k in host))
    require(name + ": restartPolicy %s" % restart, pod.get("restartPolicy") == restart)
    allowed = {"configMap", "emptyDir", "persistentVolumeClaim", "secret", "projected", "csi", "ephemeral", "downwardAPI"}
    for volume in pod["volumes"]:
        require("%s: volume %s" % (name, volume["name"]), set(volume) - {"name"} <= allowed)
    for c in pod["containers"]:
        context = c["securityContext"]
        require(name + ": no privilege", context.get("allowPrivilegeEscalation") is False and not context.get("privileged"))
        require(name + ": no capability", context.get("capabilities") == {"drop": ["ALL"]})
        require(name + ": read-only root", context.get("readOnlyRootFilesystem") is True)
        requests, limits = c["resources"]["requests"], c["resources"]["limits"]
        require(name + ": requests = limits", requests == limits and set(limits) == {"cpu", "memory"})
        require(name + ": termination message", c["terminationMessagePolicy"] == "FallbackToLogsOnError")
        mounts = {m["name"]: m for m in c["volumeMounts"]}
        require(name + ": every mount has a volume", set(mounts) <= {v["name"] for v in pod["volumes"]})
        job = mounts.get("job", {}).get("readOnly")
        require(name + ": the job file, if any, is read-only", job is ("/etc/qring/job.json" in c["args"] or None))
        require(name + ": one image, by tag or digest", re.match(r"[^:@]+(:[^:@/]+|@sha256:[0-9a-f]{64})$", c["image"]))


def encrypted(name, pod, known):
    """A ring's pods have a Secret's folder and --tls-dir, or no folder and --plaintext."""
    c = pod["containers"][0]
    volume = [v for v in pod["volumes"] if v["name"] == "tls"]
    mount = [m for m in c["volumeMounts"] if m["name"] == "tls"]
    require(name + ": either TLS or plaintext", ("--tls-dir=/etc/qring/tls" in c["args"]) != ("--plaintext" in c["args"]))
    require(name + ": TLS with a volume", ("--tls-dir=/etc/qring/tls" in c["args"]) == bool(volume) == bool(mount))
    if not volume:
        return
    require(name + ": the Secret's folder, read-only, mounted whole so that it can be renewed", mount == [{"name": "tls", "mountPath": "/etc/qring/tls", "readOnly": True}])
    source = volume[0]["secret"]
    require(name + ": the key is readable by the pod's group only", source.get("defaultMode") == 0o440 and pod["securityContext"]["fsGroup"] == 65532)
    made = known.get(("Secret", source["secretName"]))
    if made:
        require(name + ": a TLS Secret", made["type"] == "kubernetes.io/tls")
        require(name + ": without the CA's key", set(made["data"]) == {"tls.crt", "tls.key", "ca.crt"})
        keys = [k for k, v in made["data"].items() if b"PRIVATE KEY" in base64.b64decode(v)]
        require(name + ": one key in the Secret", keys == ["tls.key"])
    for d in (d for d in known.values() if d["kind"] == "Certificate"):
        require(name + ": the Certificate's Secret", d["spec"]["secretName"] == source["secretName"])
        require(name + ": the Certificate's URI is the job's", d["spec"]["uris"] == ["qring://default/%s" % pod["subdomain"]])
        names = ["*.%s.default.svc" % pod["subdomain"], "%s.default.svc" % pod["subdomain"]]
        require(name + ": the Certificate's DNS names are the pods'", d["spec"]["dnsNames"] == names)
        require(name + ": the Certificate is for servers and clients", d["spec"]["usages"] == ["digital signature", "server auth", "client auth"])


def policy_of_failures(name, spec):
    ignore, fail = spec["podFailurePolicy"]["rules"]
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    require(name + ": a disruption is not a failure", ignore == {"action": "Ignore", "onPodConditions": disrupted})
    codes = fail["onExitCodes"]
    require(name + ": exit codes 1-127 fail the Job", fail["action"] == "FailJob" and codes["operator"] == "In" and codes["values"] == list(range(1, 128)))
    require(name + ": exit codes of the pod's own container", codes["containerName"] in [c["name"] for c in spec["template"]["spec"]["containers"]])


def selects(selector, labels):
    return bool(selector) and all(labels.get(k) == v for k, v in selector.items())


def chosen(selector, labels):
    not_in = [(e["key"], e["values"]) for e in selector.get("matchExpressions", []) if e["operator"] == "NotIn"]
    return selects(selector["matchLabels"], labels) and all(labels.get(key) not in values for key, values in not_in)


def probed(name, container, ports=frozenset({2222, 2224, 8080})):
    require(name + ": ports", {p["containerPort"] for p in container["ports"]} == ports)
    probes = [container[p]["httpGet"]["path"] for p in ("startupProbe", "readinessProbe", "livenessProbe")]
    require(name + ": probes", probes == ["/readyz", "/readyz", "/healthz"])
    startup = container["startupProbe"]
    # Before the port opens, two bucket operations may each be retried for 600 s; the worker must
    # exit before the probe fails.
    require(name + ": time to start", startup["periodSeconds"] * startup["failureThreshold"] >= 1300)


def other_launch(name, d, known):
    """Checks kinds other than a Job."""
    spec, pod = d["spec"], template_of(d)["spec"]
    container = pod["containers"][0]
    env = {e["name"]: e.get("value") for e in container.get("env", [])}
    kind = d["kind"].replace("Cluster", "")
    called = {"StatefulSet": "qringd", "JobSet": "qringd", "TFJob": "tensorflow", "TrainingRuntime": "node"}[kind]
    require(name + ": the container name that its controller expects", [c["name"] for c in pod["containers"]] == [called])
    require(name + ": a bucket for checkpoints, because pods share no volume", any(a.startswith("--weights=gs://") for a in container["args"]))
    ring_name = name[:-3] if serves(d) else name
    peers = {"StatefulSet": ring_name + "-{i}.%s:2222" % ring_name, "JobSet": name + "-workers-0-{i}.%s:2222" % name,
             "TFJob": name + "-worker-{i}:2222" if "PS" in spec.get("tfReplicaSpecs", {}) else None, # otherwise by TF_CONFIG
             "TrainingRuntime": "$(JOBSET_NAME)-node-0-{i}.$(JOBSET_NAME):2222"}[kind]
    require(name + ": peers by the controller's pod names", env.get("QRING_PEER_TEMPLATE") == peers)
    if d["kind"] == "StatefulSet":
        service = known["Service", spec["serviceName"]]["spec"]
        require(name + ": names before readiness", service["publishNotReadyAddresses"] is True and service["clusterIP"] == "None")
        require(name + ": the selectors match", selects(service["selector"], template_of(d)["metadata"]["labels"]) and
             selects(spec["selector"]["matchLabels"], template_of(d)["metadata"]["labels"]))
        require(name + ": all at once", spec["podManagementPolicy"] == "Parallel")
    elif d["kind"] == "TFJob":
        worker = spec["tfReplicaSpecs"]["Worker"]
        require(name + ": exit codes decide about restarts, and all workers must succeed", worker["restartPolicy"] == "ExitCode" and spec["successPolicy"] == "AllWorkers")
        require(name + ": the operator's port", container["ports"][0] == {"name": "tfjob-port", "containerPort": 2222})
    else:
        within = jobset_of(d)
        require(name + ": exit codes 1-127 fail it", within["failurePolicy"]["rules"] == [
            {"name": "permanent", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}])
        job = job_of(d)
        require(name + ": Indexed", job["completionMode"] == "Indexed" and job["completions"] == job["parallelism"])
        require(name + ": no Service of the chart, because the controller creates one", ("Service", name) not in known and "subdomain" not in pod)


def ring(name, job, known):
    spec = job["spec"]
    template = spec["template"]
    pod, labels = template["spec"], template["metadata"]["labels"]
    container = pod["containers"][0]
    env = {e["name"]: e for e in container["env"]}
    service = known.get(("Service", pod["subdomain"]))
    require(name + ": Indexed, with parallelism = completions", spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"])
    require(name + ": a headless Service with the subdomain's name", service and service["spec"]["clusterIP"] == "None")
    if service:
        require(name + ": names before readiness", service["spec"]["publishNotReadyAddresses"] is True)
        require(name + ": the Service selects the pods", selects(service["spec"]["selector"], labels))
        targets = {p["targetPort"] for p in service["spec"]["ports"]}
        require(name + ": the Service's ports are the container's", targets == {p["name"] for p in container["ports"]})
    ring_name = name[:-3] if serves(job) else name
    require(name + ": peers by the pods' names", env["QRING_PEER_TEMPLATE"]["value"] == "%s-{i}.%s:2222" % (ring_name, pod["subdomain"]))
    require(name + ": a pod's name fits", len("%s-%d-abcde" % (name, spec["completions"] - 1)) <= 63)
    require(name + ": retries are bounded", ("backoffLimit" in spec) != ("backoffLimitPerIndex" in spec))
    require(name + ": one failed index fails the Job", spec.get("maxFailedIndexes", 0) == 0)


def trials(name, spec, container):
    require(name + ": Indexed, with parallelism = completions", spec["completions"] == spec["parallelism"])
    require(name + ": retries are bounded", ("backoffLimit" in spec) != ("backoffLimitPerIndex" in spec))
    shared = any(a.startswith("--to=") for a in container["args"])
    require(name + ": an output that all pods share", shared or any("persistentVolumeClaim" in v for v in spec["template"]["spec"]["volumes"]))


def disruption_budget(budget, rings):
    """The budget allows one eviction at a time, by a field that the pods' controllers support."""
    name, spec = "the budget", budget["spec"]
    (wanted,) = spec["selector"]["matchExpressions"]
    component = lambda template: template["metadata"]["labels"]["app.kubernetes.io/component"]
    own = [d for d in rings if component(template_of(d)) in wanted["values"]]
    require(name + ": selects the ring's pods, not those of helm test", own and wanted["operator"] == "In" and "test" not in wanted["values"])
    n = 0
    for d in own:
        for template in filter(None, (template_of(d), servers_of(d))):
            require(name + ": selects " + d["metadata"]["name"], selects(spec["selector"]["matchLabels"], template["metadata"]["labels"]) and
                 component(template) in wanted["values"])
        job, tf = job_of(d), d["spec"].get("tfReplicaSpecs", {})
        n += job["completions"] if job else sum(r["replicas"] for r in tf.values() if not evaluates(r["template"])) if tf else d["spec"]["replicas"]
        if d["kind"] == "JobSet":
            n += sum(r["template"]["spec"]["completions"] for r in d["spec"]["replicatedJobs"][1:]
                     if not evaluates(r["template"]["spec"]["template"]))
    scales = {d["kind"] for d in own} == {"StatefulSet"}
    require(name + ": maxUnavailable only where all controllers support scale", ("maxUnavailable" in spec) == scales and ("minAvailable" in spec) != scales)
    require(name + ": one at a time, and always one", spec.get("maxUnavailable", 1) == 1 and spec.get("minAvailable", n - 1) == n - 1)
    require(name + ": pods that are not ready can be evicted", spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow")


def safe(path):
    all_objects = objects(path)
    known = {(d["kind"], d["metadata"]["name"]): d for d in all_objects}
    require(path + ": each object once", len(known) == len(all_objects))
    jobs = [d for d in all_objects if d["kind"] in RESTARTS]
    require(path + ": an object that runs pods", jobs)
    for job in jobs:
        name, pod = job["metadata"]["name"], template_of(job)["spec"]
        require("%s: at most 52 characters" % name, len(name) <= 52 and re.match(r"[a-z]([-a-z0-9]*[a-z0-9])?$", name))
        restricted(name, pod, RESTARTS[job["kind"]])
        if job_of(job):
            policy_of_failures(name, job_of(job))
        for volume in pod["volumes"]:
            if "configMap" in volume:
                got = known.get(("ConfigMap", volume["configMap"]["name"]), {"data": {}})["data"]
                require(name + ": the ConfigMap has the job file", all(i["key"] in got for i in volume["configMap"]["items"]))
                require(name + ": the job file is JSON", isinstance(json.loads(got.get("job.json", "null")), dict))
        if job["kind"] == "Job" and evaluates(template_of(job)):
            ring_of = [d for d in jobs if d["metadata"]["name"] == name[:-5]]
            require(name + ": belongs to a ring", len(ring_of) == 1)
            require(name + ": retries are bounded", "backoffLimit" in job["spec"])
            evaluator(name, template_of(job), template_of(ring_of[0]), RESTARTS["Job"])
        elif job["kind"] != "Job":
            other_launch(name, job, known)
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
            require(name + ": one policy selects the pods", len(ours) == min(len(policies), 1))
            for policy in ours:
                require(name + ": the policy covers ingress and egress", policy["policyTypes"] == ["Ingress", "Egress"])
                open_to = {p["port"] for way in ("ingress", "egress") for rule in policy[way] for p in rule["ports"]}
                require(name + ": no peer ports for an evaluator", not evaluates(template) or not {2222, 2224} & open_to)
    for budget in (d for d in all_objects if d["kind"] == "PodDisruptionBudget"):
        disruption_budget(budget, [d for d in jobs if template_of(d)["spec"]["containers"][0]["command"] == ["qringd"]])
    for d in all_objects:
        require("%s: no fixed namespace" % d["metadata"]["name"], "namespace" not in d["metadata"])
        require("%s: no private key outside a Secret" % d["metadata"]["name"], d["kind"] == "Secret" or "PRIVATE KEY" not in json.dumps(d))
        if d["kind"] == "ServiceAccount":
            require("the account: no token", d["automountServiceAccountToken"] is False)
        if d["kind"] == "Role":
            require("the role: only the verb patch", d["rules"] and all(r["verbs"] == ["patch"] for r in d["rules"]))


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
    other_template = evaluator_of if name.endswith("-eval") else servers_of
    template = template_of(ours[name]) if name in ours else other_template(ours[ring_name])
    name = ring_name
    container = template["spec"]["containers"][0]
    env = {}
    for e in container.get("env", []):
        source = e.get("valueFrom", {})
        if "replica-index" in json.dumps(source):
            continue # set by the caller
        if "configMapKeyRef" in source:
            value = known["ConfigMap", source["configMapKeyRef"]["name"]]["data"][source["configMapKeyRef"]["key"]]
        else:
            value = name if "fieldRef" in source else e["value"]  # the only fieldRef is the JobSet's name, which is the TrainJob's
        env[e["name"]] = re.sub(r"\$\((\w+)\)", lambda m: env[m.group(1)], value)  # expanded with earlier variables, as the kubelet does
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
            require(at + ": additionalProperties", schema.get("additionalProperties") is False)
        for k, v in schema.items():
            if k not in ("if", "then", "else"):  # conditions on an object that is checked already
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
