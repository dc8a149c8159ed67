#!/bin/sh
# Prints docs/chart-values.md: the values of the chart, from its values.yaml.
#
#   docs/chart-values.sh charts/gpu-metrics-apiserver/values.yaml > docs/chart-values.md
#
# The comment above a key is its meaning. A key in a comment has no default.
# Indented lines and list items in comments are examples and are skipped. A map
# whose keys have no comments is one row. A key without a meaning is an error.
set -eu
cat <<END
# Values of the chart

Written from \`charts/gpu-metrics-apiserver/values.yaml\` by \`make manifests\`. The keys are those of the
prometheus-adapter chart 5.3.0, with the same meaning. *Different* marks a default or a meaning that differs on purpose.
*Ours* marks a key that the prometheus-adapter chart does not have. [Install](install.md#with-helm) describes
the first values to set.
END
awk '
function fail(text) {
	print "docs/chart-values.sh: " text > "/dev/stderr"
	status = 1
	exit 1
}
function topic(title, keys,    n, i, list) {
	titles[++topics] = title
	n = split(keys, list, " ")
	for (i = 1; i <= n; i++) topic_of[list[i]] = topics
}
BEGIN {
	topic("Image and replicas", "image replicas revisionHistoryLimit strategy podDisruptionBudget")
	topic("Prometheus, GPUs and rules", "prometheus gpu presets rules metricsRelistInterval")
	topic("Registration and certificates", "apiServices certificates certManager tls")
	topic("Rights", "rbac serviceAccount automountServiceAccountToken")
	topic("Network", "listenPort service networkPolicy hostNetwork dnsPolicy dnsConfig")
	topic("Monitoring", "serviceMonitor prometheusRule dashboards")
	topic("Pods", "resources livenessProbe readinessProbe startupProbe securityContext podSecurityContext " \
		"affinity topologySpreadConstraints nodeSelector tolerations priorityClassName podLabels podAnnotations")
	topic("Server and its container", "logLevel extraArguments env extraVolumes extraVolumeMounts extraContainers")
	topic("Names, labels and further objects", "")
}
# Adds a key below the last key that is indented less.
function add(indent, key, value,    parent) {
	while (depth > 0 && indents[depth] >= indent) depth--
	parent = depth > 0 ? open[depth] : 0
	node++
	path[node] = parent ? path[parent] "." key : key
	name[node] = key
	default_of[node] = value
	meaning[node] = comment
	children[parent]++
	child[parent, children[parent]] = node
	if (comment != "") for (; parent; parent = up[parent]) described[parent] = 1
	up[node] = depth > 0 ? open[depth] : 0
	open[++depth] = node
	indents[depth] = indent
	comment = ""
}
/^[ \t]*$/ { comment = ""; next }
{
	match($0, /^ */)
	indent = RLENGTH
	text = substr($0, indent + 1)
}
# A comment: an example, a key without default, or a part of a meaning.
text ~ /^#/ {
	text = substr(text, 2)
	if (text !~ /^ ?[^ ]/ || text ~ /^ ?- /) next
	sub(/^ /, "", text)
	if (text ~ /^[a-z][A-Za-z]*:( |$)/) {
		key = text
		sub(/:.*/, "", key)
		sub(/^[^:]*: */, "", text)
		example = text == "" ? "" : " Example: `" text "`."
		if (comment == "") fail(key " has no comment")
		comment = comment example
		add(indent, key, "(unset)")
	} else {
		comment = comment (comment == "" ? "" : " ") text
	}
	next
}
{
	if (text !~ /^[A-Za-z_]+:( |$)/) fail("not understood: " $0)
	key = text
	sub(/:.*/, "", key)
	sub(/^[^:]*: */, "", text)
	add(indent, key, text)
}
# A value of a key in one line.
function flow(n,    i, inner) {
	if (!children[n]) return default_of[n] == "" ? "null" : default_of[n]
	for (i = 1; i <= children[n]; i++)
		inner = inner (i > 1 ? ", " : "") name[child[n, i]] ": " flow(child[n, i])
	return "{" inner "}"
}
# A page that is cited, with or without a section, as a link.
function linked(text,    before, cited, page, section, anchor) {
	while (match(text, /docs\/[a-z\/-]+\.md(, "[^"]+")?/)) {
		before = before substr(text, 1, RSTART - 1)
		cited = substr(text, RSTART, RLENGTH)
		text = substr(text, RSTART + RLENGTH)
		page = section = cited
		sub(/^docs\//, "", page)
		sub(/\.md.*/, "", page)
		if (section ~ /"/) {
			gsub(/^[^"]*"|"$/, "", section)
			anchor = tolower(section)
			gsub(/[^a-z0-9 _-]/, "", anchor)
			gsub(/ /, "-", anchor)
			before = before "[" section "](" page ".md#" anchor ")"
		} else before = before "[" page "](" page ".md)"
	}
	return before text
}
function row(n, value) {
	if (meaning[n] == "") fail(path[n] " has no comment")
	value = value == "" ? "" : "`" value "`"
	text = linked(meaning[n])
	gsub(/\|/, "\\|", text)
	gsub(/\|/, "\\|", value)
	print "| `" path[n] "` | " value " | " text " |"
}
function rows(n,    i) {
	if (default_of[n] == "(unset)") row(n, "")
	else if (!children[n]) row(n, flow(n))
	else if (!described[n]) row(n, flow(n))
	else {
		if (meaning[n] != "") row(n, "")
		for (i = 1; i <= children[n]; i++) rows(child[n, i])
	}
}
END {
	if (status) exit status
	# Keys without a topic stand under the last one.
	for (i = 1; i <= children[0]; i++)
		if (!(path[child[0, i]] in topic_of)) topic_of[path[child[0, i]]] = topics
	for (t = 1; t <= topics; t++) {
		print "\n## " titles[t] "\n\n| value | default | meaning |\n|---|---|---|"
		for (i = 1; i <= children[0]; i++)
			if (topic_of[path[child[0, i]]] == t) rows(child[0, i])
	}
}' "$1"
