package main

import (
	"fmt"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph"
)

// attribute is an attribute with a default, shared by ops.
type attribute struct {
	name     string
	goType   string
	ops      []string
	defaults map[string][]string // ops by default
}

// attributes returns the file of the functions for optional attributes.
func attributes(ops []*graph.OpDef) ([]byte, error) {
	entries, err := readTable(attrTable)
	if err != nil {
		return nil, err
	}
	all := map[string]*attribute{}
	for _, def := range ops {
		_, optional := split(def)
		for _, a := range optional {
			key := keyOf(a)
			have := all[key]
			if have == nil {
				have = &attribute{name: a.Name, goType: goType(a), defaults: map[string][]string{}}
				all[key] = have
			}
			if have.goType != goType(a) {
				return nil, fmt.Errorf("attribute %s of %s is a %s, that of %s a %s", a.Name, def.Name, goType(a), have.ops[0], have.goType)
			}
			have.ops = append(have.ops, def.Name)
			v := value(a.DefaultValue)
			have.defaults[v] = append(have.defaults[v], def.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if all[name] == nil {
			return nil, fmt.Errorf("attrs.txt describes %s, which is not an op's attribute with a default", name)
		}
	}
	b := &source{imports: map[string]bool{}}
	for _, name := range slices.SortedFunc(maps.Keys(all), func(x, y string) int { return strings.Compare(exported(x), exported(y)) }) {
		a := all[name]
		summary := entries[name].summary
		if summary == "" {
			summary = "sets the attribute " + a.name
		}
		b.printf("// %s %s.\n//\n// %s\n", exported(name), summary, strings.Join(slices.Concat([]string{takers(a.ops)}, a.unless()), " "))
		b.printf("func %s(v %s) Attr { return Attr{%q, v} }\n\n", exported(name), b.uses(a.goType), a.name)
	}
	return b.file("attr")
}

// keyOf returns the name of the function for an attribute. Some attributes are strings in some ops and bools in others.
func keyOf(a *oppb.OpDef_AttrDef) string {
	if a.Name == "deterministic" && goType(a) == "string" {
		return "determinism"
	}
	if a.Name == "compression" && goType(a) == "string" {
		return "snapshot_compression"
	}
	return a.Name
}

// few is the maximum number of ops that a comment lists by name.
const few = 12

func takers(ops []string) string {
	if len(ops) > few {
		return fmt.Sprintf("Accepted by %d ops.", len(ops))
	}
	return "Ops: " + strings.Join(ops, ", ") + "."
}

// unless describes the default values.
func (a *attribute) unless() []string {
	if len(a.defaults) == 1 {
		return []string{"Default: " + slices.Collect(maps.Keys(a.defaults))[0] + "."}
	}
	var out []string
	for _, v := range slices.Sorted(maps.Keys(a.defaults)) {
		if ops := a.defaults[v]; len(ops) > few {
			out = append(out, fmt.Sprintf("%s (%d ops)", v, len(ops)))
		} else {
			out = append(out, fmt.Sprintf("%s (%s)", v, strings.Join(ops, ", ")))
		}
	}
	return []string{"Defaults: " + strings.Join(out, "; ") + "."}
}
