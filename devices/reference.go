package devices

import "github.com/troupe-run/troupe/kernels"

// passers are the ops that hand inputs on without looking at them, with the number of those inputs from the first one
// on; 0 stands for all.
var passers = map[string]int{
	"Identity": 1, "IdentityN": 0, "StopGradient": 1, "PreventGradient": 1, "PlaceholderWithDefault": 1,
	"Switch": 1, "_SwitchN": 1, "Merge": 0, "Enter": 1, "Exit": 1, "NextIteration": 1,
}

// observers are the ops that are told of a variable that has no value: their declarations take tensors, but TensorFlow hands
// them what is there (SetAllowsUninitializedInput).
var observers = map[string]bool{"Copy": true, "CopyHost": true, "DebugIdentity": true, "DebugNanCount": true, "DebugNumericSummary": true}

// passReferences has ops that only hand their input on do so with references to variables, too: the variable is read
// by the op that computes with it, when that runs. TensorFlow's Identity, Enter and Switch read the variable, but share
// its memory, which updates write to, so that the effect is the same: a loop sees in each iteration what the one before
// has assigned to a variable that was captured outside. References do not leave their device: a _Send reads.
//
// An Identity that other nodes wait for reads the variable itself, since the graph may order updates after it; ops that
// compute get the value from that time. (In TensorFlow they see the updates.) Control flow gets the reference.
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

// dereference reads the variables that inputs refer to, unless the op takes or passes references, and refuses those
// without a value. A value that has a reference beside it was read before: only control flow goes back to the variable.
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
