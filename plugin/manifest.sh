#!/bin/sh
# Prints the manifest by which krew installs `kubectl gpu-metrics`:
#
#   plugin/manifest.sh v0.1.0 https://HOST/PATH/v0.1.0 FOLDER > gpu-metrics.yaml
#
# FOLDER has the archives of the release, kubectl-gpu_metrics_OS_ARCH.tar.gz
# (`make plugin` makes that of this machine), and the address is where they will
# be downloaded from. Run it once all of them are there: it writes their sums.
set -eu
version=$1 address=$2 folder=$3
cat <<END
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: gpu-metrics
spec:
  version: $version
  homepage: $address
  shortDescription: Explain GPU metrics and their autoscalers
  description: |
    Why a GPU metric is what it is, instant by instant and GPU by GPU; what the
    controller of a HorizontalPodAutoscaler computes from it; who holds GPUs and
    what they do with them; and what is wrong with HPAs, rights and registration.
    It asks gpu-metrics-apiserver, which must run in the cluster.
  platforms:
END
for archive in "$folder"/kubectl-gpu_metrics_*_*.tar.gz; do
  name=${archive##*/}
  platform=${name#kubectl-gpu_metrics_}
  platform=${platform%.tar.gz}
  program=kubectl-gpu_metrics
  case $platform in windows_*) program=$program.exe ;; esac
  sum=$(sha256sum "$archive")
  cat <<END
  - selector:
      matchLabels:
        os: ${platform%_*}
        arch: ${platform#*_}
    uri: $address/$name
    sha256: ${sum%% *}
    files:
    - from: $program
      to: .
    - from: LICENSE
      to: .
    bin: $program
END
done
