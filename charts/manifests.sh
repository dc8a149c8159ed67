#!/bin/sh
# Writes the objects of manifests/ from the chart with its default values, for
# those who apply them without Helm.
#
#   manifests.sh [FOLDER]
set -eu
cd "$(dirname "$0")"

folder=${1:-../manifests}
helm=$(../e2e/chart/build.sh where)/helm
[ -x "$helm" ] || { echo "make manifests: $helm is missing: make helm"; exit 1; }

name=gpu-metrics-apiserver
for file in apiservices config deployment networkpolicy pdb rbac secret service serviceaccount; do
	"$helm" template $name $name --namespace gpu-metrics --show-only "templates/$file.yaml" |
		# What only Helm uses: its labels, its marks, and the sum that restarts
		# pods when the values change.
		sed -e '1{/^---$/d}' -e '/^# Source: /d' -e '/^ *helm.sh\/chart: /d' \
			-e '/^ *app.kubernetes.io\/managed-by: /d' \
			-e '/^ *annotations:$/{N;/checksum\/config/d}' >"$folder/.$file.yaml"
	mv "$folder/.$file.yaml" "$folder/$file.yaml"
done
