package main

import (
	"go/token"
	"strconv"
	"strings"
)

// initialisms maps parts of names to their spelling in Go.
var initialisms = map[string]string{"id": "ID", "ids": "IDs", "gpu": "GPU", "cpu": "CPU", "cudnn": "Cudnn", "ok": "OK"}

// exported converts a name_with_underscores to an exported Go name.
func exported(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "_") {
		if part == "" {
			continue
		}
		if word, ok := initialisms[part]; ok {
			b.WriteString(word)
			continue
		}
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// locals holds the names of one function's parameters and results.
type locals map[string]bool

// add returns the Go name for an argument or attribute, unique within the function. It appends suffix if the name is taken.
func (l locals) add(name, suffix string) string {
	first, rest, more := strings.Cut(name, "_")
	goName := strings.ToLower(first)
	if first != goName && strings.ToUpper(first) != first { // numElements stays as it is, T and Tindices do not
		goName = strings.ToLower(first[:1]) + first[1:]
	}
	if more {
		goName += exported(rest)
	}
	if word, ok := renamed[goName]; ok {
		goName = word
	}
	if reserved[goName] || token.IsKeyword(goName) {
		goName += suffix
	}
	base := goName
	for i := 2; l[goName]; i++ {
		if goName == base && !strings.HasSuffix(base, suffix) {
			base += suffix
			goName, i = base, 1
			continue
		}
		goName = base + strconv.Itoa(i)
	}
	l[goName] = true
	return goName
}

// renamed maps argument names that are Go keywords to Go names.
var renamed = map[string]string{"var": "variable", "func": "function", "type": "kind"}

// reserved holds names that a function's body uses, and predeclared identifiers that would be shadowed.
var reserved = map[string]bool{"s": true, "attrs": true, "added": true, "len": true, "string": true, "min": true, "max": true,
	"append": true, "copy": true, "error": true, "any": true, "true": true, "false": true, "nil": true, "int": true}
