package devices

import (
	"slices"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/subnormal"
	"github.com/troupe-run/troupe/kernels"
)

// TensorFlow's threads treat subnormal numbers as zeros, and so do kernels on CPUs here: kernels that compute with floats, both where they
// are called and in the parts that helpers compute. Kernels with state do not: they may wait for a lock, which is slow in that mode.
// Updates of variables in assembly set the mode themselves.

// subnormals is how a node's kernel treats subnormal numbers.
type subnormals uint8

const (
	keepsSubnormals   subnormals = iota
	ignoresSubnormals            // neither computes with floats nor waits, so the mode does not matter
	flushesSubnormals
)

// iterates are the ops that iterate until a remainder is small. TensorFlow keeps subnormal numbers for eigenvalues.
var iterates = map[string]bool{
	"Eig": true, "SelfAdjointEig": true, "SelfAdjointEigV2": true, "BatchSelfAdjointEig": true, "BatchSelfAdjointEigV2": true, "Svd": true, "BatchSvd": true,
}

// subnormalsOf returns how the kernel of a node on a CPU treats subnormal numbers.
func subnormalsOf(n *graph.Node) subnormals {
	if n.Def == nil || n.Def.GetIsStateful() || iterates[n.Op] || slices.ContainsFunc(n.InTypes, opaque) {
		return keepsSubnormals
	}
	float := func(d tensor.DType) bool { return d.Base().IsFloating() || d.Base().IsComplex() }
	if slices.ContainsFunc(n.InTypes, float) || slices.ContainsFunc(n.OutTypes, float) {
		return flushesSubnormals
	}
	return ignoresSubnormals
}

// compute runs a node's kernel on a goroutine that does nothing else.
func (n *node) compute(c *kernels.Context) error {
	if n.subnormals == flushesSubnormals {
		defer subnormal.Flush().End()
	}
	return n.sync.Compute(c)
}

// flush puts the owner into the mode of n's kernel, which is the other one. The mode lasts until a kernel needs another one, or until keep.
func (r *run) flush(n *node) {
	if n.subnormals == keepsSubnormals {
		r.keep()
	} else {
		r.scope = subnormal.Flush()
	}
}

// keep ends the mode that flush began. The owner calls it before it waits, calls code that is not a kernel, or ends its burst.
func (r *run) keep() {
	if r.scope.Begun() {
		r.scope.End()
		r.scope = subnormal.Scope{}
	}
}
