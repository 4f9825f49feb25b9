#!/usr/bin/env bash
# Says what a board and a server get: a software bill of materials (CycloneDX, JSON) of agent and fleet.
#
#   sbom.sh            writes dist/sbom/shoal-agent.cdx.json and dist/sbom/shoal-fleet.cdx.json   (make sbom)
#
# Each member is installed with all its engines and extras, pinned by constraints.txt, into an environment of its own
# under .cache/sbom, where nothing else is. What is listed is what is really there.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TOOL="cyclonedx-bom==7.5.0"
readonly FOLDER=.cache/sbom
declare -rA MEMBERS=(
    [shoal-agent]='./wire ./agent[images,litert,onnxruntime,openvino,pkcs11,text]'
    [shoal-fleet]='./wire ./fleet[hsm,oidc,pkcs11]'
)

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore

main() {
    local member
    make_environment tool
    install tool "$TOOL"
    mkdir -p dist/sbom
    for member in "${!MEMBERS[@]}"; do
        make_environment "$member"
        # shellcheck disable=SC2086  # each word is a member
        install "$member" ${MEMBERS[$member]} --constraint constraints.txt
        "$FOLDER/tool/bin/cyclonedx-py" environment "$FOLDER/$member/bin/python" \
            --output-reproducible --output-format JSON --output-file "dist/sbom/$member.cdx.json"
        echo "dist/sbom/$member.cdx.json"
    done
}

make_environment() { python3 -m venv --clear "$FOLDER/$1" >&2; }

install() { "$FOLDER/$1/bin/python" -m pip install --quiet "${@:2}" >&2; }

main "$@"
