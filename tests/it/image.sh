#!/bin/sh
# The container image of this checkout: size, packages, no shell, the same digest when built
# again; containers of it (tests/image/containers). Images, networks and mounts are in a folder
# and in namespaces of the test, which leaves nothing behind.
PATH="$PATH:/usr/sbin:/sbin"; export PATH
if [ -z "${QR_IMAGE_INSIDE:-}" ] && [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
    QR_IMAGE_INSIDE=1 exec unshare -m sh "$0"
fi
. "$(dirname "$0")/common"
cd "$root" || exit 1 # the image is built from the checkout
unset TF_CONFIG QRING_HTTP_PORT
[ -n "${QR_IMAGE_INSIDE:-}" ] || { skip "containers with limits need root and a mount namespace"; end; }
for tool in buildah podman runc mmdebstrap iptables unshare mount; do command -v $tool >/dev/null || { fail "no $tool: make deps"; end; }; done

. tests/image/store
mkdir "$store/lower" "$store/upper" "$store/w" "$store/m"
why=$(mount -t overlay overlay -o "lowerdir=$store/lower,upperdir=$store/upper,workdir=$store/w" "$store/m" 2>&1 && umount "$store/m" 2>&1) ||
    { skip "no containers, since overlay file systems cannot be mounted: $why"; end; }
why=$(unshare -n -m sh -c 'ip link add br9 type bridge && mount -t tmpfs tmpfs /run' 2>&1) || { skip "no containers, since namespaces cannot be created: $why"; end; }
cgroup=/sys/fs/cgroup; [ -d $cgroup/memory ] && cgroup=$cgroup/memory
why=$(mkdir "$cgroup/qring-$$" 2>&1 && rmdir "$cgroup/qring-$$" 2>&1) || { skip "no containers, since cgroups cannot be created: $why"; end; }

# ---- built twice, the second time without the cache of the image's last layers ----
began=$(date +%s)
QR_BASE=make QR_IMAGE_OUT=$work/first tests/image/build qring >"$work/build.log" 2>&1 || { fail "the image: exit $?"; tail -n 40 "$work/build.log"; end; }
echo "built in $(($(date +%s) - began)) s, base included"
check "the test stage ran its tests" grep -qE '^[1-9][0-9]* passed, 0 failed, 0 skipped$' "$work/first/build.log"
b rmi qring >/dev/null
QR_AGAIN=$$ QR_TESTS=' ' QR_IMAGE_OUT=$work/second tests/image/build qring >"$work/again.log" 2>&1 || { fail "the image again: exit $?"; tail -n 40 "$work/again.log"; }
check "the same digest again: $(cat "$work/first/digest") and $(cat "$work/second/digest")" cmp -s "$work/first/digest" "$work/second/digest"
check "the second build did not use the cache" sh -c "! grep -A1 -E 'COPY --from=test|RUN .*tests/image/gather' '$work/second/build.log' | grep 'Using cache'"

# ---- content ----
sed -n '/packages;/p' "$work/build.log"
tr '\n' ',' <"$work/first/packages" | sed 's/,$//; s/,/, /g; s/^/packages: /'; echo
check "at most 50 MB, not $(cat "$work/first/size") bytes" test "$(cat "$work/first/size")" -le 50000000
b from --name look --pull-never qring >/dev/null
m=$(b mount look)
for name in sh bash dash ash busybox toybox perl python3 dpkg apt; do
    check "no $name inside" sh -c "! find '$m' -name $name ! -type d | grep ."
done
check "no setuid or setgid file, and only /tmp is world-writable" \
    sh -c "! find '$m' \( -type f -perm /6000 -o ! -type l -perm -0002 ! -path '$m/tmp' \) | grep ."
check "no executables but qring, qringd and libraries" test "$(cd "$m" && find . -type f -perm /111 ! -name '*.so*' | sort | tr '\n' ' ')" = "./usr/bin/qring ./usr/bin/qringd "
check "no debug information in the programs" sh -c "! readelf -S '$m/usr/bin/qringd' | grep -q debug_info"
check "the bill of materials has each file, and no other" tests/image/parts "$work/first/sbom.cdx.json" "$m"
b inspect --type image --format '{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}} {{index .OCIv1.Config.Labels "org.opencontainers.image.licenses"}}' qring >"$work/config" 2>&1
check "user, entry point, label: $(cat "$work/config")" grep -qx '65532:65532 \[/usr/bin/qringd\] Apache-2.0' "$work/config"
b umount look >/dev/null
b rm look >/dev/null

# ---- the image of Python jobs, which shares the first stage ----
QR_IMAGE_OUT=$work/python tests/image/build qring-python deploy/python/Dockerfile >"$work/python.log" 2>&1 ||
    { fail "the image with Python: exit $?"; tail -n 20 "$work/python.log"; }
sed -n '/packages;/p' "$work/python.log"

# ---- containers, in a network namespace of their own ----
timeout -k 10 800 unshare -n -m sh tests/image/containers >"$work/containers.log" 2>&1 </dev/null
grep -vE '^[0-9]+ passed' "$work/containers.log"
add "$work/containers.log"
end
