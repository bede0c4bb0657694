package devices

import "github.com/troupe-run/troupe/kernels"

// passers are the ops that pass inputs on without reading them, with the number of those inputs, counted from the first; 0 means all.
var passers = map[string]int{
	"Identity": 1, "IdentityN": 0, "StopGradient": 1, "PreventGradient": 1, "PlaceholderWithDefault": 1,
	"Switch": 1, "_SwitchN": 1, "Merge": 0, "Enter": 1, "Exit": 1, "NextIteration": 1,
}

// observers are the ops that accept a variable without a value: their declarations take tensors, but TensorFlow passes them uninitialized
// inputs (SetAllowsUninitializedInput).
var observers = map[string]bool{"Copy": true, "CopyHost": true, "DebugIdentity": true, "DebugNanCount": true, "DebugNumericSummary": true}

// passReferences makes ops that only pass on their input also pass on references to variables. The op that computes with the variable reads
// it when it runs. TensorFlow's Identity, Enter and Switch read the variable, but share its memory, which updates write to. The effect is
// the same: each iteration of a loop sees what the one before has assigned to a captured variable. References do not leave their device: a
// _Send reads.
//
// An Identity that other nodes wait for reads the variable itself, since the graph may order updates after it. Ops that compute get the
// value from that time. (In TensorFlow they see the updates.) Control flow gets the reference.
func (p *Program) passReferences() {
	for i := range p.nodes {
		n := &p.nodes[i]
		if observers[n.graph.Op] {
			n.refIn = []bool{true}
			continue
		}
		count, ok := passers[n.graph.Op]
		if !ok {
			continue
		}
		if count == 0 {
			count = int(n.numIn)
		}
		n.refIn = make([]bool, n.numIn)
		for i := range count {
			n.refIn[i] = true
		}
		n.readsRefs = n.kind == kindPlain && len(n.ctrl) > 0
	}
}

// dereference reads the variables that inputs refer to, unless the op takes or passes references, and fails for variables without a value.
// A value that comes with a reference has already been read: only control flow goes back to the variable.
func (n *node) dereference(ins []kernels.Value) error {
	for i := range ins {
		in := &ins[i]
		if in.Ref == nil {
			continue
		}
		keep := n.refIn != nil && n.refIn[i]
		if keep && n.kind != kindPlain {
			in.Release()
			in.Tensor = nil
		}
		switch {
		case in.Tensor != nil:
		case !keep || n.readsRefs:
			if in.Tensor = in.Ref.Read(); in.Tensor == nil {
				return in.Ref.Uninitialized()
			}
		case !n.initializer && !in.Ref.Initialized():
			return in.Ref.Uninitialized()
		}
		if !keep {
			in.Ref = nil
		}
	}
	return nil
}
