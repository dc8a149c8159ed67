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
# Writes one object: its template, its file, further arguments.
write() {
	template=$1 file=$2
	shift 2
	"$helm" template $name $name --kube-version 1.37.0 --namespace gpu-metrics --show-only "templates/$template.yaml" "$@" |
		# What only Helm uses: its labels, its marks, and the sum that restarts
		# pods when the values change.
		sed -e '1{/^---$/d}' -e '/^# Source: /d' -e '/^ *helm.sh\/chart: /d' \
			-e '/^ *app.kubernetes.io\/managed-by: /d' \
			-e '/^ *annotations:$/{N;/checksum\/config/d}' >"$folder/.written.yaml"
	mv "$folder/.written.yaml" "$folder/$file.yaml"
}

for file in apiservices config deployment networkpolicy pdb rbac secret service serviceaccount; do
	write $file $file
done
# kustomization.yaml makes the ConfigMap of the file in it.
sed -n '/^  config.yaml: |$/,$s/^    //p' "$folder/config.yaml" >"$folder/.written.yaml"
mv "$folder/.written.yaml" "$folder/config.yaml"
mkdir -p "$folder/optional"
write autoscalers optional/autoscalers --set rbac.autoscalers=true
write prometheusrule optional/prometheusrule --set prometheusRule.enabled=true
