module peer/templates

go 1.24
