package main

import (
	_ "embed" // for the table
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph"
)

// table is ops.txt: sections of ops with the first sentences of their comments.
//
//go:embed ops.txt
var table string

// attrTable is attrs.txt: attributes with the first sentences of their comments.
//
//go:embed attrs.txt
var attrTable string

// entry is an op of the table.
type entry struct{ area, summary string }

// readTable reads lines "Op summary" under lines "# area".
func readTable(text string) (map[string]entry, error) {
	ops := map[string]entry{}
	area := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if name, ok := strings.CutPrefix(line, "# "); ok {
			area = name
			continue
		}
		name, summary, _ := strings.Cut(line, " ")
		if _, ok := ops[name]; ok {
			return nil, fmt.Errorf("%s is twice in the table", name)
		}
		ops[name] = entry{area, strings.TrimSpace(summary)}
	}
	return ops, nil
}

// byHand holds the ops for which graph/op has handwritten functions or types of the same name.
var byHand = map[string]bool{
	"Const": true,
	"If":    true, "StatelessIf": true, "Case": true, "StatelessCase": true, "While": true, "StatelessWhile": true,
	// The first versions of ops that share their names with types. Like VariableV2, they return references.
	"Variable": true, "TensorArray": true,
}

// public returns the declarations of the ops that programs may use in new graphs.
func public(names []string) ([]*graph.OpDef, error) {
	var ops []*graph.OpDef
	for _, name := range names {
		if name[0] == '_' {
			continue
		}
		def, err := graph.LookupOp(name)
		if err != nil {
			return nil, err
		}
		if def.Deprecation == nil {
			ops = append(ops, def)
		}
	}
	return ops, nil
}

const registryFile = "gen_constructors_test.go"

// generate returns the contents of all files for the named ops.
func generate(names []string) (map[string][]byte, error) {
	entries, err := readTable(table)
	if err != nil {
		return nil, err
	}
	all, err := public(names)
	if err != nil {
		return nil, err
	}
	ops := slices.DeleteFunc(slices.Clone(all), func(def *graph.OpDef) bool { return byHand[def.Name] })
	known := map[string]bool{}
	areas := map[string][]*graph.OpDef{}
	for _, def := range ops {
		known[def.Name] = true
		area := entries[def.Name].area
		if area == "" {
			area = "other"
		}
		areas[area] = append(areas[area], def)
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if !known[name] {
			return nil, fmt.Errorf("ops.txt describes %s, which is not an op with a constructor", name)
		}
	}
	files := map[string][]byte{}
	for area, list := range areas {
		if files["gen_"+area+".go"], err = constructors(list, entries); err != nil {
			return nil, err
		}
	}
	if files["attr/gen_attrs.go"], err = attributes(all); err != nil {
		return nil, err
	}
	if files[registryFile], err = registry(ops); err != nil {
		return nil, err
	}
	return files, nil
}
