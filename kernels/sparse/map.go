package sparse

import (
	"fmt"
	"sync"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// sparseMap keeps sparse tensors under numbers until they are taken. It is safe for concurrent use.
type sparseMap struct {
	name string

	mu      sync.Mutex
	next    int64
	kept    map[int64]sparse // with their own references
	deleted bool
}

func (m *sparseMap) put(s sparse) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.deleted {
		return 0, status.Errorf(status.NotFound, "SparseTensorsMap %s was deleted", m.name)
	}
	s.indices.Retain()
	s.values.Retain()
	m.kept[m.next] = s
	m.next++
	return m.next - 1, nil
}

// take removes tensors and passes them, with their references, to the caller: all before the first missing one.
func (m *sparseMap) take(handles []int64) (taken []sparse, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range handles {
		s, ok := m.kept[h]
		if !ok {
			return taken, status.InvalidArgumentf("Unable to find SparseTensor: %d in map: %s", h, m.name)
		}
		delete(m.kept, h)
		taken = append(taken, s)
	}
	return taken, nil
}

// Close releases all tensors.
func (m *sparseMap) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deleted = true
	for _, s := range m.kept {
		s.release()
	}
	clear(m.kept)
}

// Deleted reports whether Close was called.
func (m *sparseMap) Deleted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.deleted
}

// Describe describes the contents.
func (m *sparseMap) Describe() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf("%d sparse tensors", len(m.kept))
}

func (s sparse) release() {
	s.indices.Release()
	s.values.Release()
}

// mapFinder finds the map that a node names, and creates it if it does not exist. A node that takes tensors needs a name to find those of
// other nodes; without one it has its own map.
type mapFinder struct {
	container, name string
	resources       kernels.Resources
}

func newMapFinder(c *kernels.Construction) (*mapFinder, error) {
	container, name, err := kernels.Named(c)
	return &mapFinder{container, name, c.Device.Resources()}, err
}

func (f *mapFinder) find() (*sparseMap, error) {
	r, err := f.resources.LookupOrCreate(f.container, kernels.KindSparseMap, f.name, func() (containers.Resource, error) {
		return &sparseMap{name: f.name, kept: map[int64]sparse{}}, nil
	})
	if err != nil {
		return nil, err
	}
	m, ok := r.(*sparseMap)
	if !ok {
		return nil, kernels.WrongResource(f.container, f.name, r, m)
	}
	return m, nil
}

// newAddSparse returns the kernel that keeps a sparse tensor and outputs its number.
func newAddSparse(c *kernels.Construction) (any, error) {
	f, err := newMapFinder(c)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		m, err := f.find()
		if err != nil {
			return err
		}
		s, err := sparseInput(ctx, 0)
		if err != nil {
			return err
		}
		shape, err := shapes.ShapeOf(s.shape)
		if err != nil {
			return err
		}
		if err := s.fits(); err != nil {
			return err
		}
		s.shape = shape.Clone()
		handle, err := m.put(s)
		if err != nil {
			return err
		}
		ctx.SetOutput(0, tensor.Scalar(tensor.Int64, handle))
		return nil
	}), nil
}

// newAddManySparse returns the kernel that keeps each tensor of a batch.
func newAddManySparse(c *kernels.Construction) (any, error) {
	f, err := newMapFinder(c)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		m, err := f.find()
		if err != nil {
			return err
		}
		s, err := sparseInput(ctx, 0)
		if err != nil {
			return err
		}
		if s.count() != s.values.Len() {
			return status.InvalidArgumentf("Number of values must match first dimension of indices. Got %d values, indices shape: %v", s.values.Len(), s.indices.Shape())
		}
		if s.rank() != len(s.shape) {
			return status.InvalidArgumentf("Number of dimensions must match second dimension of indices. Got %d dimensions, indices shape: %v", len(s.shape), s.indices.Shape())
		}
		if s, err = sparseBatch(ctx, 0); err != nil {
			return err
		}
		return addEach(ctx, m, s)
	}), nil
}

func addEach(ctx *kernels.Context, m *sparseMap, s sparse) error {
	out, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{s.shape[0]})
	if err != nil {
		return err
	}
	handles := tensor.Of[int64](out)
	for i := range handles {
		handles[i] = -1
	}
	shape := tensor.Shape(s.shape[1:]).Clone()
	put := func(row int64, lo, hi int) error {
		indices, values, err := s.part(ctx.Device.Pool(), lo, hi)
		if err != nil {
			return err
		}
		part := sparse{indices, values, shape}
		defer part.release()
		handles[row], err = m.put(part)
		return err
	}
	// Those with values come first, as in TensorFlow, since clients can see the numbers.
	if err := s.groups(put); err != nil {
		return err
	}
	for i, h := range handles {
		if h < 0 {
			if err := put(int64(i), 0, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// newTakeManySparse returns the kernel that takes tensors out and stacks them.
func newTakeManySparse(c *kernels.Construction) (any, error) {
	f, err := newMapFinder(c)
	if err != nil {
		return nil, err
	}
	dtype, err := c.Attrs().Type("dtype")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		m, err := f.find()
		if err != nil {
			return err
		}
		handles := ctx.Input(0)
		if handles.Rank() != 1 {
			return status.InvalidArgumentf("sparse_handles should be a vector but received shape %v", handles.Shape())
		}
		if handles.Len() == 0 {
			return status.InvalidArgumentf("Must have at least 1 serialized SparseTensor, but input matrix has 0 rows")
		}
		parts, err := m.take(tensor.Of[int64](handles))
		defer func() {
			for _, p := range parts {
				p.release()
			}
		}()
		if err != nil {
			return err
		}
		for i, p := range parts {
			if p.values.DType() != dtype {
				return status.InvalidArgumentf("Requested SparseTensor of type %v but SparseTensor[%d].values.dtype() == %v", dtype, i, p.values.DType())
			}
		}
		for i, p := range parts {
			if len(p.shape) != len(parts[0].shape) {
				return status.InvalidArgumentf("Inconsistent rank across SparseTensors: rank prior to SparseTensor[%d] was: %d but rank of SparseTensor[%d] is: %d",
					i, len(parts[0].shape)+1, i, len(p.shape)+1)
			}
		}
		return stacked(ctx, dtype, []int64{int64(len(parts))}, parts)
	}), nil
}
