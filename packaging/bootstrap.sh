#!/usr/bin/env bash
# Makes a bare Debian or Ubuntu (git, make, Python 3.11 or newer) ready for Shoal.
#
#   bootstrap.sh run          system packages, .venv with the members      (make run)
#   bootstrap.sh test         the same, the tools for tests and checks, one more engine (make test, make check)
#   bootstrap.sh boards       as test, and what a virtual board needs      (make hil)
#   bootstrap.sh converters   .venv-converters with every framework        (make test-converters)
#   bootstrap.sh constraints  writes constraints.txt anew                  (make constraints)
#
# Installs nothing twice: .venv/stamps holds the digest of what was installed. All that is said goes to
# stderr. Exit code 2: something is missing that we may not install; the line to type has been printed.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly MEMBERS=(-e wire -e 'agent[images,litert,onnxruntime,openvino,pkcs11,text]' -e 'fleet[hsm,oidc,pkcs11]' -e 'converters[onnx]')
readonly MEMBER_FILES=(wire/pyproject.toml agent/pyproject.toml fleet/pyproject.toml converters/pyproject.toml)
# tflite-runtime can't share an environment with the other engines (NumPy 1) and exists for Python 3.11 only: it gets
# .venv-tflite where there is one.
readonly TFLITE_PYTHON=3.11
# The workbench with all the frameworks that it converts from and to: 5 GB, apart from what everybody needs.
readonly CONVERTER_MEMBERS=(-e wire -e agent -e 'converters[coreml,litert-torch,onnx,openvino,sklearn,tensorflow,tflite,torch]')
readonly CONVERTER_FILES=(wire/pyproject.toml agent/pyproject.toml converters/pyproject.toml)
readonly CONVERTER_TOOLS=(hypothesis pytest pytest-timeout)
# Not to be had for every machine; the tests that need them are skipped there.
readonly CONVERTER_EXTRAS=(tensorrt-rtx paddlepaddle)
readonly CONVERTER_PYTHON=3.11
# The members are built inside .venv and not in a throw-away environment each: one download, pinned.
readonly BUILD_TOOLS=(hatchling editables)
readonly OLDEST_PYTHON=3.11

# Package and the program by which it is known to be there.
declare -rA TOKEN_PROGRAMS=([softhsm2]=softhsm2-util [swtpm]=swtpm [opensc]=pkcs11-tool)
# What makes Debian packages, and the small systems that they are tried in.
declare -rA PACKAGE_PROGRAMS=([debhelper]=dh [mmdebstrap]=mmdebstrap)
# The virtual board's emulator, what makes its image, and a compiler for its kernel.
declare -rA BOARD_PROGRAMS=([qemu-system-arm]=qemu-system-aarch64 [qemu-utils]=qemu-img [qemu-user-static]=qemu-aarch64-static
    [binfmt-support]=update-binfmts [mmdebstrap]=mmdebstrap [arch-test]=arch-test [gcc-aarch64-linux-gnu]=aarch64-linux-gnu-gcc [make]=make
    [cpio]=cpio [kmod]=/sbin/depmod [fakeroot]=fakeroot [openssh-client]=ssh)

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore

say() { printf 'shoal: %s\n' "$*" >&2; }

stop() {
    say "$@"
    exit 2
}

main() {
    case "${1:-}" in
        run) make_ready ;;
        test)
            make_ready
            install_optional TOKEN_PROGRAMS libtpm2-pkcs11-1
            install_optional PACKAGE_PROGRAMS
            install_test_tools
            make_tflite_venv
            ;;
        boards)
            main test
            install_optional BOARD_PROGRAMS
            let_arm64_programs_run
            ;;
        converters) make_converters_venv ;;
        constraints) write_constraints ;;
        *) stop "usage: packaging/bootstrap.sh run|test|boards|converters|constraints" ;;
    esac
}

make_ready() {
    venv_works || find_python
    install_system_packages
    mkdir -p .cache
    # Two makes at once must not install into one .venv. Taken after apt: a service that apt starts would
    # inherit the lock and never let go.
    exec 9>.cache/bootstrap.lock
    flock 9
    make_venv
    install_members
}

# A .venv whose interpreter was removed or upgraded away doesn't run any more.
venv_works() { .venv/bin/python -c 'import pip' >/dev/null 2>&1; }

# Sets `python` to the first interpreter that runs and is new enough. One with ensurepip is preferred;
# Debian and Ubuntu leave that out until python3-venv is installed. A command may exist and still not run:
# pyenv's shims do.
find_python() {
    local candidate candidates=(python3.13 python3.12 python3.11 python3)
    [[ -z "${PYTHON:-}" ]] || candidates=("$PYTHON")
    python=""
    for candidate in "${candidates[@]}"; do
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue
        [[ -n "$python" ]] || python="$candidate"
        if has_venv "$candidate"; then
            python="$candidate"
            return
        fi
    done
    [[ -n "$python" ]] ||
        stop "no Python $OLDEST_PYTHON or newer found (tried: ${candidates[*]}); name one: make PYTHON=/path/to/python3"
}

has_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

# The Debian package that gives `python` its venv module: python3.11-venv, python3.13-venv.
venv_package() { "$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'; }

# Installs what only the system's package manager can give. Debian's mosquitto package also starts a broker
# of its own on port 1883 where there is an init system; Shoal's has another port, so that one is left alone.
install_system_packages() {
    local missing=()
    venv_works || has_venv "$python" || missing+=("$(venv_package)")
    command -v mosquitto >/dev/null || [[ -x /usr/sbin/mosquitto ]] || missing+=(mosquitto)
    ((${#missing[@]})) || return 0

    local as_root=()
    if ((EUID != 0)); then
        as_root=(sudo -n)
        sudo -n true 2>/dev/null || stop_for "${missing[@]}"
    fi
    command -v apt-get >/dev/null || stop_for "${missing[@]}"
    say "installing ${missing[*]} with apt-get"
    apt_get update || say "apt-get update failed; trying with the package lists as they are"
    apt_get install --yes --no-install-recommends "${missing[@]}" || stop_for "${missing[@]}"
}

# Installs what an array names, programs by package, and further packages with them where one is missing. Not an error
# where they can't be had: the tests that need them are skipped.
install_optional() {
    local -n programs="$1"
    local package missing=() as_root=()
    for package in "${!programs[@]}"; do
        command -v "${programs[$package]}" >/dev/null || missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    if ((EUID != 0)); then
        as_root=(sudo -n)
        sudo -n true 2>/dev/null || missing+=(not-as-root)
    fi
    if [[ "${missing[-1]}" != not-as-root ]] && command -v apt-get >/dev/null; then
        say "installing ${!programs[*]} with apt-get"
        apt_get update || say "apt-get update failed; trying with the package lists as they are"
        apt_get install --yes --no-install-recommends "${!programs[@]}" "${@:2}" && return
    fi
    say "${!programs[*]} can't be installed here; the tests that need them will be skipped"
}

# Lets this kernel hand programs for arm64 to an emulator, which outlives no restart of a machine without systemd.
let_arm64_programs_run() {
    local as_root=() folder=/proc/sys/fs/binfmt_misc
    [[ ! -e $folder/qemu-aarch64 ]] || return 0
    ((EUID == 0)) || as_root=(sudo -n)
    { [[ -e $folder/register ]] || "${as_root[@]}" mount -t binfmt_misc binfmt_misc "$folder"; } &&
        "${as_root[@]}" update-binfmts --enable qemu-aarch64 ||
        say "programs for arm64 don't run here; there will be no virtual board"
}

apt_get() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get --quiet --quiet -o DPkg::Lock::Timeout=120 "$@" </dev/null >&2
}

stop_for() {
    say "missing: $*. Type this line, then try again:"
    printf '\n    sudo apt-get update && sudo apt-get install --yes %s\n\n' "$*" >&2
    exit 2
}

make_venv() {
    if ! venv_works; then
        say "making .venv with $("$python" -c 'import sys; print(sys.executable, sys.version.split()[0])')"
        "$python" -m venv --clear .venv
    fi
    mkdir -p .venv/stamps
}

install_members() {
    local digest
    digest="$(digest_of constraints.txt "${MEMBER_FILES[@]}")"
    is_installed members "$digest" && return
    say "installing the members into .venv (the first time takes a minute or two)"
    install_pinned "${BUILD_TOOLS[@]}"
    install_pinned --no-build-isolation "${MEMBERS[@]}"
    echo "$digest" >.venv/stamps/members
}

install_test_tools() {
    local digest
    digest="$(digest_of constraints.txt tests/requirements.txt)"
    is_installed test-tools "$digest" && return
    say "installing the tools for tests and checks into .venv"
    install_pinned --requirement tests/requirements.txt
    echo "$digest" >.venv/stamps/test-tools
}

# Not an error where it can't be made: the tests that need it say so and are skipped.
make_tflite_venv() {
    local digest candidate
    digest="$(digest_of constraints-tflite.txt)"
    [[ "$(cat .venv-tflite/stamp 2>/dev/null)" != "$digest" ]] || return 0
    for candidate in .venv/bin/python "python$TFLITE_PYTHON"; do
        has_version "$candidate" "$TFLITE_PYTHON" && has_venv "$candidate" || continue
        say "installing tflite-runtime into .venv-tflite"
        rm -rf .venv-tflite
        if "$candidate" -m venv .venv-tflite >&2 &&
            .venv-tflite/bin/python -m pip install --quiet --requirement constraints-tflite.txt >&2; then
            echo "$digest" >.venv-tflite/stamp
        else
            say "tflite-runtime can't be installed here; its tests will be skipped"
        fi
        return 0
    done
    say "no Python $TFLITE_PYTHON with venv here; the tests of tflite-runtime will be skipped"
}

# Made with the Python that the frameworks are tested with where there is one. PyTorch comes in the build that pip
# finds: a smaller one for the CPU, where it is offered, does as well.
make_converters_venv() {
    local digest one
    digest="$(digest_of constraints-converters.txt "${CONVERTER_FILES[@]}")"
    mkdir -p .cache
    exec 8>.cache/converters.lock
    flock 8
    [[ "$(cat .venv-converters/stamp 2>/dev/null)" != "$digest" ]] || return 0
    python="python$CONVERTER_PYTHON"
    has_version "$python" "$CONVERTER_PYTHON" && has_venv "$python" || find_python
    has_venv "$python" || stop_for "$(venv_package)"
    .venv-converters/bin/python -c 'import pip' >/dev/null 2>&1 || "$python" -m venv --clear .venv-converters >&2
    say "installing the frameworks into .venv-converters: 5 GB, several minutes"
    install_for_converters "${BUILD_TOOLS[@]}"
    install_for_converters --no-build-isolation "${CONVERTER_MEMBERS[@]}" "${CONVERTER_TOOLS[@]}"
    for one in "${CONVERTER_EXTRAS[@]}"; do
        install_for_converters "$one" || say "$one can't be installed here; its tests will be skipped"
    done
    echo "$digest" >.venv-converters/stamp
}

install_for_converters() {
    .venv-converters/bin/python -m pip install --quiet --constraint constraints-converters.txt "$@" >&2
}

has_version() { [[ "$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" == "$2" ]]; }

install_pinned() { .venv/bin/python -m pip install --quiet --constraint constraints.txt "$@" >&2; }

# The path is part of it: an editable install points at the folder where it was made.
digest_of() { { pwd && cat "$@"; } | sha256sum | cut -d ' ' -f 1; }

is_installed() { [[ "$(cat ".venv/stamps/$1" 2>/dev/null)" == "$2" ]]; }

# Resolves everything anew, without pins, in an environment of its own. Made with the oldest supported Python,
# so that every pin has a release for it.
write_constraints() {
    PYTHON="${PYTHON:-python$OLDEST_PYTHON}" find_python
    has_version "$python" "$OLDEST_PYTHON" ||
        stop "constraints.txt is made with Python $OLDEST_PYTHON: make constraints PYTHON=/path/to/python$OLDEST_PYTHON"
    has_venv "$python" || stop_for "$(venv_package)"
    local folder
    folder="$(mktemp -d)"
    # shellcheck disable=SC2064  # the folder's name is wanted as it is now
    trap "rm -rf '$folder'" EXIT
    "$python" -m venv "$folder/venv"
    say "resolving the newest releases; this takes a minute or two"
    "$folder/venv/bin/python" -m pip install --quiet "${BUILD_TOOLS[@]}" >&2
    "$folder/venv/bin/python" -m pip install --quiet --no-build-isolation \
        --requirement tests/requirements.txt "${MEMBERS[@]}" >&2
    {
        echo "# Every package that Shoal's environment holds, at the version it is tested with."
        echo "# Valid for Python 3.11 to 3.13. Not edited by hand: \`make constraints\` writes it anew."
        "$folder/venv/bin/python" -m pip freeze --exclude-editable
    } >"$folder/constraints.txt"
    cp "$folder/constraints.txt" constraints.txt
    say "constraints.txt written; run the tests before you commit it"
}

main "$@"
