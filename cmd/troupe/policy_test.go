package main

import (
	"slices"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/internal/rights"
	"github.com/troupe-run/troupe/kernels"
)

// TestFileOps checks that a policy's group of ops that use files names existing ops.
func TestFileOps(t *testing.T) {
	for _, op := range rights.FileOps() {
		if _, err := graph.LookupOp(op); err != nil {
			t.Errorf("@files has %s: %v", op, err)
		}
		if len(kernels.Rows(op, "CPU")) == 0 {
			t.Errorf("@files has %s, which has no kernel", op)
		}
	}
	if !slices.IsSorted(rights.FileOps()) {
		t.Error("@files is not sorted")
	}
}
