package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// Program is the program that owns a server and whose functions graphs call by name. All methods may be called concurrently.
type Program interface {
	// Call calls a function. It takes over the references to the inputs and calls done once, possibly before it returns, with an error or
	// with results that the receiver owns. cancel abandons the call: done is then called soon, though the function itself may continue.
	Call(c ProgramCall, done func(results []*tensor.Tensor, err error)) (cancel func())
}

// ProgramCall is a call of a function of the program.
type ProgramCall struct {
	// Name is the function's name: the token of a PyFunc.
	Name string
	// Eager reports that a Python function takes and returns eager tensors rather than arrays.
	Eager   bool
	Inputs  []*tensor.Tensor
	Outputs []tensor.DType
	// Pool is the pool to allocate results from.
	Pool *tensor.Pool
}

// ProgramOf returns the program that owns the device's server, or nil if there is none.
func ProgramOf(d Device) Program {
	if p, ok := d.(interface{ Program() Program }); ok {
		return p.Program()
	}
	return nil
}
