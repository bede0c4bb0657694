package math

import (
	"math"
	"math/cmplx"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/fourier"
)

// fft implements the FFT ops, which transform the last rank dimensions.
type fft struct {
	rank          int
	inverse, real bool
	out           tensor.DType
}

// fftRows returns the rows of an op for both complex types. It sets out in each kernel; like has the other fields.
func fftRows(like fft) []kernels.Def {
	row := func(c, r tensor.DType) kernels.Def {
		types, k := dtypes.Only("Tcomplex", c), like
		if k.out = c; like.real {
			types["Treal"] = []tensor.DType{r}
			if like.inverse {
				k.out = r
			}
		}
		return kernels.Def{Types: types, HostInputs: []string{"fft_length"}, Expensive: true, New: func(*kernels.Construction) (any, error) { return &k, nil }}
	}
	return []kernels.Def{row(tensor.Complex64, tensor.Float32), row(tensor.Complex128, tensor.Float64)}
}

func (k *fft) Compute(ctx *kernels.Context) error {
	in := ctx.Input(0)
	if in.Rank() < k.rank {
		return status.InvalidArgumentf("Input must have rank of at least %d but got: %v", k.rank, in.Shape())
	}
	lead := in.Rank() - k.rank
	sizes := make([]int, k.rank)
	for i := range sizes {
		sizes[i] = in.Dim(lead + i)
	}
	if k.real {
		if err := k.lengths(ctx, in.Shape()[lead:], sizes); err != nil {
			return err
		}
	}
	shape := in.Shape().Clone()
	used := make([]int, k.rank) // the number of input elements used in each dimension
	for i, n := range sizes {
		shape[lead+i], used[i] = int64(n), n
	}
	if last := k.rank - 1; k.real && sizes[last] != 0 {
		if k.inverse {
			used[last] = sizes[last]/2 + 1
		} else {
			shape[lead+last] = int64(sizes[last]/2 + 1)
		}
	}
	out, err := ctx.Allocate(0, k.out, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	if in.Len() == 0 {
		return kernels.Clear(ctx, out.Data())
	}
	if s := newSingleFFT(k, in, out, lead, sizes, used); s != nil {
		return s.compute(ctx)
	}
	m := ctx.Meter()
	defer m.Done()
	if err := takeBlocks(&m, in.Shape()[lead:], out.Shape()[lead:], sizes, used); err != nil {
		return err
	}
	k.batches(ctx, in, out, lead, sizes, used)
	return ctx.Ended()
}

// takeBlocks reserves memory for batches: a block each for the input, the transform and the output, and a plan for each size. Plans of
// sizes that are not powers of two have lists of up to four times the size.
func takeBlocks(m *kernels.Meter, in, out tensor.Shape, sizes, used []int) error {
	const number, plan = 16, 16 * 12
	volume := 1
	for i, n := range used {
		if n > 0 && volume > math.MaxInt32/n*math.MaxInt32 {
			return status.Errorf(status.ResourceExhausted, "OOM when transforming blocks of shape %v", sizes)
		}
		volume *= n
		if err := m.TakeMany(sizes[i], plan); err != nil {
			return err
		}
	}
	err := m.TakeMany(volume, number)
	if err == nil {
		err = m.TakeMany(in.Elements(), number)
	}
	if err == nil {
		err = m.TakeMany(out.Elements(), number)
	}
	return err
}

// lengths reads the input fft_length into sizes.
func (k *fft) lengths(ctx *kernels.Context, dims tensor.Shape, sizes []int) error {
	length := ctx.Input(1)
	if err := args.CheckType(ctx, 1, tensor.Int32); err != nil {
		return err
	}
	if length.Rank() != 1 || length.Len() != k.rank {
		return status.InvalidArgumentf("fft_length must have shape [%d]", k.rank)
	}
	for i, n := range tensor.Of[int32](length) {
		if n < 0 {
			return status.InvalidArgumentf("fft_length[%d] must >= 0, but got: %d", i, n)
		}
		least := int64(n)
		if k.inverse && i == k.rank-1 && n > 0 {
			least = int64(n)/2 + 1
		}
		if dims[i] != 0 && dims[i] < least {
			return status.InvalidArgumentf("Input dimension %d must have length of at least %d but got: %d", ctx.Input(0).Rank()-k.rank+i, least, dims[i])
		}
		sizes[i] = int(n)
	}
	return nil
}

// batches transforms one block of the last dimensions after another, until the step ends.
func (k *fft) batches(ctx *kernels.Context, in, out *tensor.Tensor, lead int, sizes, used []int) {
	plans := map[int]*fourier.Plan{}
	for _, n := range sizes {
		if plans[n] == nil {
			plans[n] = fourier.NewPlan(n, func() bool { return ctx.Ended() != nil })
		}
	}
	inDims, outDims := in.Shape()[lead:], out.Shape()[lead:]
	inSize, outSize := inDims.Elements(), outDims.Elements()
	whole := make([]complex128, inSize)
	volume := 1
	for _, n := range used {
		volume *= n
	}
	block := make([]complex128, volume)
	result := make([]complex128, outSize)
	end := ctx.Lookout()
	for b := range in.Len() / inSize {
		if end.After(inSize+outSize) != nil {
			return
		}
		if element.LoadNumbers(whole, in, b*inSize) != nil {
			return // unreachable: the table's rows allow only readable types
		}
		crop(block, used, whole, intsOf(inDims))
		k.transform(&end, block, used, sizes, plans)
		if k.real && k.inverse {
			k.extend(&end, result, block, used, sizes, plans)
		} else {
			// Forward transforms of real numbers keep the first half of the last dimension.
			crop(result, intsOf(outDims), block, used)
		}
		element.StoreNumbers(out, b*outSize, result)
	}
}

// transform transforms block along all its dimensions. The inverse of a real transform skips the last one, of which only half is present.
func (k *fft) transform(end *kernels.Lookout, block []complex128, dims, sizes []int, plans map[int]*fourier.Plan) {
	stride := 1
	for axis := len(dims) - 1; axis >= 0; axis-- {
		n := dims[axis]
		if !(k.real && k.inverse && axis == len(dims)-1) {
			line := make([]complex128, n)
			for start := range block {
				if start/stride%n != 0 {
					continue
				}
				if end.After(n) != nil {
					return
				}
				for i := range line {
					line[i] = block[start+i*stride]
				}
				if k.inverse {
					plans[sizes[axis]].Inverse(line)
				} else {
					plans[sizes[axis]].Forward(line)
				}
				for i, v := range line {
					block[start+i*stride] = v
				}
			}
		}
		stride *= n
	}
}

// extend inverts the last dimension, whose second half mirrors the first.
func (k *fft) extend(end *kernels.Lookout, dst, src []complex128, used, sizes []int, plans map[int]*fourier.Plan) {
	half, n := used[len(used)-1], sizes[len(sizes)-1]
	for row := range len(dst) / n {
		if end.After(n) != nil {
			return
		}
		from, to := src[row*half:(row+1)*half], dst[row*n:(row+1)*n]
		copy(to, from)
		to[0] = complex(real(from[0]), 0)
		for i := half; i < n; i++ {
			to[i] = cmplx.Conj(from[n-i])
		}
		if n%2 == 0 {
			to[n/2] = complex(real(from[n/2]), 0)
		}
		plans[n].Inverse(to)
	}
}

// crop copies the first elements of each dimension.
func crop(dst []complex128, dims []int, src []complex128, from []int) {
	index := make([]int, len(dims))
	for i := range dst {
		at := 0
		for axis, v := range index {
			at = at*from[axis] + v
		}
		dst[i] = src[at]
		for axis := len(dims) - 1; axis >= 0; axis-- {
			if index[axis]++; index[axis] < dims[axis] {
				break
			}
			index[axis] = 0
		}
	}
}

func intsOf(s tensor.Shape) []int {
	out := make([]int, len(s))
	for i, d := range s {
		out[i] = int(d)
	}
	return out
}
