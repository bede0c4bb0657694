package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-run/troupe/kernels"
)

// TestCurrent checks that each op with kernels has a constructor that matches its declaration.
func TestCurrent(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "graph", "op")
	files, err := generate(kernels.Ops())
	if err != nil {
		t.Fatal(err)
	}
	old, err := generated(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range old {
		if _, ok := files[name]; !ok {
			t.Errorf("%s is generated no more: run go generate ./graph/op", name)
		}
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the declarations give: run go generate ./graph/op", name)
		}
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ name, goName string }{
		{"x", "x"}, {"seq_len_max", "seqLenMax"}, {"T", "t"}, {"Tindices", "tindices"}, {"var", "variable"},
		{"s", "sIn"}, {"numElements", "numElements"}, {"row_ids", "rowIDs"}, {"range", "rangeIn"}, {"MYID", "myid"},
	} {
		if got := (locals{}).add(c.name, "In"); got != c.goName {
			t.Errorf("%s becomes %s, not %s", c.name, got, c.goName)
		}
	}
	l := locals{"x": true}
	if a, b := l.add("x", "Out"), l.add("x", "Out"); a != "xOut" || b != "xOut2" {
		t.Errorf("names in use give %s and %s", a, b)
	}
	if got := exported("use_cudnn_on_gpu"); got != "UseCudnnOnGPU" {
		t.Errorf("got %s", got)
	}
}

// A table that describes an unknown op is an error.
func TestTable(t *testing.T) {
	if _, err := generate([]string{"Relu"}); err == nil {
		t.Error("no error for a table of more ops than there are")
	}
	if _, err := readTable("A\nA\n"); err == nil {
		t.Error("no error for an op that is there twice")
	}
}
