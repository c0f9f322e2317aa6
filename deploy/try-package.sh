#!/usr/bin/env bash
# Installs, upgrades, removes and purges the Debian package in a throw-away copy of a root
# directory: of this machine, or of DIR, made by debootstrap. Needs root.
#
#   try-package.sh BINARY            a package around this program, made without cargo-deb
#   try-package.sh PACKAGE.deb       a package of `cargo deb`, its upgrade made by hand
#   try-package.sh … DIR             in a copy of DIR
#
# systemd does not run there. A fake systemctl records the calls, which are compared.
set -euo pipefail

if [ "${1:-}" != --inside ]; then
  here=$(cd "$(dirname "$0")" && pwd)
  what=$(realpath "$1")
  base=$(realpath "${2:-/}")
  scratch=$(mktemp -d)
  # Mounts of the copy are private and end with the last process in it.
  trap 'rm -r "$scratch"' EXIT
  binary=$what
  if [ "${what##*.}" = deb ]; then
    dpkg-deb --extract "$what" "$scratch/first"
    binary=$scratch/first/usr/bin/sitescout
  fi
  "$binary" generate man --out "$here/../target/package/man"
  "$binary" generate completions --out "$here/../target/package/completions"
  if [ "${what##*.}" = deb ]; then
    cp "$what" "$scratch/old.deb"
  else
    "$here/assemble-package.py" "$binary" 0.0.1 "$scratch/old.deb"
  fi
  "$here/assemble-package.py" "$binary" 99.0.0 "$scratch/new.deb"
  unshare --mount "$0" --inside "$scratch" "$base"
  exit
fi

scratch=$2
base=$3
copy=$scratch/copy
mkdir "$copy"
mount -t tmpfs tmpfs "$copy"
mkdir "$copy/changes" "$copy/work" "$copy/root"
mount -t overlay overlay \
  -o "lowerdir=$base,upperdir=$copy/changes,workdir=$copy/work" "$copy/root"
root=$copy/root
mkdir -p "$root/try/bin" "$root/run/systemd/system" "$root/tmp"
cp "$scratch/old.deb" "$scratch/new.deb" "$root/try"
# A container may forbid starting services.
rm -f "$root/usr/sbin/policy-rc.d"

cat > "$root/try/bin/systemctl" <<'END'
#!/bin/sh
# Records starts, restarts and stops; is-active if /try/active exists. What only changes files, such
# as enabling, is left to the real one.
case " $* " in
  *' is-active '*) [ -e /try/active ] ;;
  *' daemon-reload '*) ;;
  *' show '*) echo 'LoadState=loaded' ;;
  *' start '* | *' restart '* | *' stop '*)
    echo "$*" | grep -oE '(start|restart|stop) .*' >> /try/asked
    ;;
  *) SYSTEMD_OFFLINE=1 exec /usr/bin/systemctl "$@" ;;
esac
END
chmod 755 "$root/try/bin/systemctl"

inside() { chroot "$root" env PATH="/try/bin:$PATH" DEBIAN_FRONTEND=noninteractive "$@"; }
install_package() { inside dpkg --force-confold -i "/try/$1.deb" > "$scratch/said" 2>&1 || complain "installing $1"; }
complain() {
  echo "try-package: $*" >&2
  cat "$scratch/said" >&2
  exit 1
}
expect() { "$@" || complain "failed: $*"; }
refuse() { if "$@"; then complain "should have failed: $*"; fi; }
asked() { cat "$root/try/asked" 2>/dev/null || true; }
passed() { printf 'ok: %s\n' "$*"; }

if [ "$base" = / ]; then
  # Dependencies must be installed already; only the package itself is tested.
  expect test -e "$root/usr/sbin/adduser"
fi
etc=$root/etc/sitescout/config.toml
state=$root/var/lib/sitescout
wanted=$root/etc/systemd/system/multi-user.target.wants/sitescout.service

install_package old
expect inside id sitescout > /dev/null
expect test -L "$wanted"
expect test "$(asked)" = ''
expect grep -q 'set contact and topics' "$scratch/said"
expect test "$(inside stat -c '%U:%G %a' /etc/sitescout/config.toml)" = 'root:sitescout 640'
expect test "$(inside stat -c '%U %a' /var/lib/sitescout)" = 'sitescout 700'
for file in usr/lib/systemd/system/sitescout.service usr/share/man/man1/sitescout-crawl.1.gz \
  usr/share/bash-completion/completions/sitescout usr/share/zsh/vendor-completions/_sitescout \
  usr/share/fish/vendor_completions.d/sitescout.fish \
  usr/share/sitescout/site-models/church/site-model.bin usr/share/doc/sitescout/operations.md \
  usr/share/doc/sitescout/config.toml usr/share/doc/sitescout/prometheus/rules.yml \
  usr/share/doc/sitescout/grafana/sitescout.json; do
  expect test -s "$root/$file"
done
expect inside sitescout --version > "$scratch/said"
passed 'installed: user, directories, files; enabled and not started'

# What an operator does before the first start.
sed -i 's|^contact = .*|contact = "https://example.org/crawler"|; s|^topics = .*|topics = ["church"]|' "$etc"
expect inside sitescout check-config /etc/sitescout/config.toml > "$scratch/said"
passed 'the installed settings are valid'
for file in /etc/sitescout/config.toml /usr/share/sitescout/site-models/church/site-model.bin; do
  expect inside setpriv --reuid sitescout --regid sitescout --clear-groups test -r "$file"
done
echo found | inside tee /var/lib/sitescout/state > /dev/null

touch "$root/try/active"
install_package new
expect test "$(asked)" = 'restart sitescout.service'
expect grep -q example.org/crawler "$etc"
expect test "$(inside stat -c '%U:%G %a' /etc/sitescout/config.toml)" = 'root:sitescout 640'
expect test -s "$state/state"
refuse grep -q 'set contact' "$scratch/said"
passed 'upgraded: restarted; settings and state kept'

rm "$root/try/asked" "$wanted"
inside deb-systemd-helper disable sitescout.service > /dev/null 2>&1 || true
rm "$root/try/active"
install_package new
refuse test -e "$wanted"
expect test "$(asked)" = ''
passed 'disabled and stopped: an upgrade leaves it so'

touch "$root/try/active"
inside dpkg -r sitescout > "$scratch/said" 2>&1 || complain removing
expect test "$(asked)" = 'stop sitescout.service'
expect test -s "$etc"
expect test -s "$state/state"
refuse test -e "$root/usr/bin/sitescout"
passed 'removed: stopped; settings and state kept'

inside dpkg -P sitescout > "$scratch/said" 2>&1 || complain purging
refuse test -e "$root/etc/sitescout"
refuse test -e "$state"
refuse test -e "$root/etc/systemd/system/sitescout.service"
refuse test -e "$root/usr/share/sitescout"
passed 'purged: nothing is left'

# Settings that existed before the package, as configuration management writes them.
rm -f "$root/try/asked" "$root/try/active"
mkdir -p "$(dirname "$etc")"
echo '[fetch]
contact = "https://example.org/crawler"' > "$etc"
install_package new
expect test "$(asked)" = 'start sitescout.service'
expect test -L "$wanted"
passed 'installed over settings with a contact: started'
