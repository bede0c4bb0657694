package kernels

import (
	"github.com/troupe-run/troupe/graph/tensor"
)

// Constant outputs one tensor, which it holds until its session ends.
type Constant struct{ Value *tensor.Tensor }

// Compute implements Kernel.
func (k *Constant) Compute(ctx *Context) error {
	ctx.SetOutput(0, k.Value.Retain())
	return nil
}

// Constant returns the tensor that every run outputs, for callers that do not need to run the kernel.
func (k *Constant) Constant() *tensor.Tensor { return k.Value }

// Close implements Closer.
func (k *Constant) Close() { k.Value.Release() }
