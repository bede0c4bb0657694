package main

import (
	"go/token"
	"strconv"
	"strings"
)

// initialisms are the parts of names that Go writes in capitals.
var initialisms = map[string]string{"id": "ID", "ids": "IDs", "gpu": "GPU", "cpu": "CPU", "cudnn": "Cudnn", "ok": "OK"}

// exported is a name_with_underscores as an exported Go name.
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

// locals are the names of one function's parameters and results.
type locals map[string]bool

// add finds the Go name for an argument or attribute, which no other one of the function has; suffix tells two
// apart that would have the same.
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

// renamed are keywords of Go that arguments are called by.
var renamed = map[string]string{"var": "variable", "func": "function", "type": "kind"}

// reserved are names that a function's body uses, or that would hide what a reader takes them for.
var reserved = map[string]bool{"s": true, "attrs": true, "added": true, "len": true, "string": true, "min": true, "max": true,
	"append": true, "copy": true, "error": true, "any": true, "true": true, "false": true, "nil": true, "int": true}
