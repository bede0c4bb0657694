package iterator

import (
	"strconv"
	"sync"
	"sync/atomic"

	handlepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/resource_handle_go_proto"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/variant"
	"google.golang.org/protobuf/proto"
)

// newIterator returns the kernel of an iterator that has a name, or belongs to the session.
func newIterator(c *kernels.Construction) (any, error) {
	s := dataset.SettingsOf(c)
	spec := s.Spec()
	if s.Err() != nil {
		return nil, s.Err()
	}
	return kernels.NewSource(c, kindIterator, kernels.NamedBySession,
		func(name string) (*Resource, error) { return newResource(name, spec), nil },
		func(r *Resource) error { return spec.Check(r.spec) })
}

// newAnonymousIterator returns the kernel of an iterator that ends with its step. The second output, if there is one, is for
// DeleteIterator.
func newAnonymousIterator(c *kernels.Construction) (any, error) {
	s := dataset.SettingsOf(c)
	spec := s.Spec()
	if s.Err() != nil {
		return nil, s.Err()
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		return dataset.OutputAnonymous(ctx, kindIterator, newResource(ctx.Node.Name, spec))
	}), nil
}

// oneShot is an iterator whose dataset is created by a function of the graph at the first run.
type oneShot struct {
	spec            dataset.Spec
	device          kernels.Device
	factory         *graph.FunctionRef
	library         kernels.Library
	container, name string
	resources       kernels.Resources
	turn            chan struct{}

	mu       sync.Mutex
	resource *Resource
}

// oneShots numbers the iterators of OneShotIterator.
var oneShots atomic.Int64

func newOneShotIterator(c *kernels.Construction) (any, error) {
	s := dataset.SettingsOf(c)
	spec, shared := s.Spec(), s.Str("shared_name")
	if s.Err() != nil {
		return nil, s.Err()
	}
	if shared != "" {
		return nil, status.InvalidArgumentf("OneShotIteratorOp does not currently support the 'shared_name' attr.")
	}
	container, name, err := kernels.Named(c)
	if err != nil {
		return nil, err
	}
	factory := s.Function("dataset_factory")
	if s.Err() != nil {
		return nil, s.Err()
	}
	k := &oneShot{spec: spec, device: c.Device, factory: factory.Ref, library: factory.Library, container: container, resources: c.Device.Resources(), turn: make(chan struct{}, 1)}
	if k.container == "" {
		k.container = k.resources.DefaultContainer()
	}
	k.name = "_" + c.Session + "_" + strconv.FormatInt(oneShots.Add(1), 10) + "_" + name
	k.turn <- struct{}{}
	return k, nil
}

// ComputeAsync outputs the handle, after the first successful call of the factory.
func (k *oneShot) ComputeAsync(ctx *kernels.Context, done func(error)) {
	if k.output(ctx) {
		done(nil)
		return
	}
	dataset.Waiting(k.make)(ctx, done)
}

// output sets the output to the handle. It reports false if there is no iterator yet, or it no longer exists.
func (k *oneShot) output(ctx *kernels.Context) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.resource == nil || k.resource.Deleted() {
		return false
	}
	ctx.SetOutput(0, tensor.FromHandle(tensor.Handle{
		Device: ctx.Device.Name(), Container: k.container, Name: k.name, Type: kindIterator, Local: k.resource,
	}))
	return true
}

func (k *oneShot) make(ctx *kernels.Context) error {
	cancelled := make(chan struct{})
	withdraw, ok := ctx.Step.Cancellation.OnCancel(func(error) { close(cancelled) })
	if !ok {
		return kernels.Cancelled(ctx.Ended())
	}
	defer withdraw()
	select {
	case <-k.turn:
	case <-cancelled:
		return kernels.Cancelled(ctx.Ended())
	}
	defer func() { k.turn <- struct{}{} }()
	if k.output(ctx) {
		return nil
	}
	// Programs of the session share this kernel. The functions that belong to one program end with it.
	functions := k.library.Open()
	defer functions.Close()
	factory, err := functions.Instantiate(k.factory)
	if err != nil {
		return err
	}
	out, err := dataset.Await(ctx.Step, factory, nil)
	if err != nil {
		return err
	}
	defer out.Release()
	if len(out) != 1 || out[0].DType() != tensor.Variant || out[0].Rank() != 0 {
		return status.InvalidArgumentf("The `dataset_factory` function must return a single scalar of dtype DT_VARIANT.")
	}
	d, err := dataset.FromTensor(dataset.Place{Device: k.device, Functions: functions, Step: ctx.Step, Waits: true}, out[0])
	if err != nil {
		return err
	}
	defer d.Release()
	r := newResource(k.name, k.spec)
	if err := r.set(ctx, k.device, d); err != nil {
		r.Close()
		return err
	}
	if _, err := k.resources.LookupOrCreate(k.container, kindIterator, k.name, func() (containers.Resource, error) { return r, nil }); err != nil {
		r.Close()
		return err
	}
	k.mu.Lock()
	k.resource = r
	k.mu.Unlock()
	k.output(ctx)
	return nil
}

// Close deletes the iterator.
func (k *oneShot) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.resource == nil {
		return
	}
	if err := k.resources.Delete(k.container, kindIterator, k.name); status.CodeOf(err) == status.Aborted {
		k.resource.Close()
	}
	k.resource = nil
}

// iteratorAt returns the iterator whose handle is at input i.
func iteratorAt(ctx *kernels.Context, i int) (*Resource, error) {
	r, err := kernels.ResourceAt[*Resource](ctx, i, kindIterator)
	if err == nil && r.Deleted() {
		h, herr := ctx.Handle(i)
		if herr != nil {
			return nil, herr
		}
		return nil, status.Errorf(status.NotFound, "Resource %s/%s/%s does not exist.", h.Container, h.Name, kindIterator)
	}
	return r, err
}

// makeIterator makes the iterator iterate over the dataset.
func makeIterator(ctx *kernels.Context, p dataset.Place) error {
	d, err := dataset.FromTensor(p, ctx.Input(0))
	if err != nil {
		return err
	}
	defer d.Release()
	r, err := iteratorAt(ctx, 1)
	if err != nil {
		return err
	}
	return r.set(ctx, p.Device, d)
}

// newGetNext returns the kernel whose outputs are the next element.
func newGetNext(c *kernels.Construction) (any, error) {
	s := dataset.SettingsOf(c)
	spec := s.Spec()
	return dataset.Waiting(func(ctx *kernels.Context) error {
		r, err := iteratorAt(ctx, 0)
		if err != nil {
			return err
		}
		e, err := r.next(ctx)
		if dataset.AtEnd(err) {
			return r.endOfSequence(ctx.Step)
		}
		if err != nil {
			return err
		}
		return spec.Output(ctx, e)
	}), s.Err()
}

// newGetNextAsOptional returns the kernel whose output is an optional of the next element, empty at the end.
func newGetNextAsOptional(c *kernels.Construction) (any, error) {
	s := dataset.SettingsOf(c)
	spec := s.Spec()
	return dataset.Waiting(func(ctx *kernels.Context) error {
		r, err := iteratorAt(ctx, 0)
		if err != nil {
			return err
		}
		e, err := r.next(ctx)
		if err != nil && !dataset.AtEnd(err) {
			return err
		}
		if err := checkOptional(spec, e); err != nil {
			e.Release()
			return err
		}
		out, nerr := ctx.Allocate(0, tensor.Variant, nil)
		if nerr != nil {
			e.Release()
			return nerr
		}
		out.Variants()[0] = variant.NewOptional(err == nil, e)
		return nil
	}), s.Err()
}

func checkOptional(s dataset.Spec, e dataset.Element) error {
	for i, t := range e {
		if i >= len(s.Types) || t.DType() != s.Types[i] {
			return status.InvalidArgumentf("The given optional does not match the expected type for component %d. Expected: %v. Actual: %v.", i, s.Types, t.DType())
		}
		if !s.Shapes[i].Admits(t.Shape()) {
			return status.InvalidArgumentf("The given optional does not match the expected shape for component %d. Expected: %v. Actual: %v.", i, s.Shapes[i], t.Shape())
		}
	}
	return nil
}

// toString returns the kernel for a resource's handle as a string, which can be passed to another session.
func toString(token func(ctx *kernels.Context) (uint64, error)) func(ctx *kernels.Context) error {
	return func(ctx *kernels.Context) error {
		n, err := token(ctx)
		if err != nil {
			return err
		}
		h, err := ctx.Handle(0)
		if err != nil {
			return err
		}
		p := h.Proto()
		p.HashCode = n
		b, err := proto.Marshal(p)
		if err != nil {
			return err
		}
		ctx.SetOutput(0, tensor.FromScalar(string(b)))
		return nil
	}
}

func iteratorToken(ctx *kernels.Context) (uint64, error) {
	r, err := iteratorAt(ctx, 0)
	if err != nil {
		return 0, err
	}
	return r.token, nil
}

func dealerToken(ctx *kernels.Context) (uint64, error) {
	d, err := dealerAt(ctx, 0)
	if err != nil {
		return 0, err
	}
	return d.token, nil
}

// fromString returns the constructor of a kernel that turns a string from toString back into the handle.
func fromString(kind string) func(c *kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		s := dataset.SettingsOf(c)
		types, list := s.TypeList("output_types"), s.Shapes("output_shapes")
		if s.Err() == nil && len(types) > 0 && len(list) > 0 && len(types) != len(list) {
			s.Failf("If both 'output_types' and 'output_shapes' are set, they must have the same length.")
		}
		return kernels.Func(func(ctx *kernels.Context) error {
			t := ctx.Input(0)
			if t.DType() != tensor.String || t.Rank() != 0 {
				return status.InvalidArgumentf("string_handle must be a scalar")
			}
			spec, h, err := handleOf(ctx, kind, t.Strings()[0])
			if err != nil {
				return err
			}
			if err := checkStated(types, list, spec); err != nil {
				return err
			}
			ctx.SetOutput(0, tensor.FromHandle(h))
			return nil
		}), s.Err()
	}
}

// handleOf parses a handle. Only the output of toString is valid: otherwise any client could make up the names in it.
func handleOf(ctx *kernels.Context, kind, text string) (dataset.Spec, tensor.Handle, error) {
	p := &handlepb.ResourceHandleProto{}
	if err := tensor.Unmarshal([]byte(text), p); err != nil {
		return dataset.Spec{}, tensor.Handle{}, status.InvalidArgumentf("Could not parse string_handle as a valid ResourceHandle")
	}
	h := tensor.HandleFromProto(p)
	if here := ctx.Device.Name(); h.Device != here {
		return dataset.Spec{}, h, status.InvalidArgumentf("Attempted create an iterator on device %q from handle defined on device %q", here, h.Device)
	}
	found, err := ctx.Device.Resources().Lookup(h.Container, kind, h.Name)
	if err != nil {
		return dataset.Spec{}, h, err
	}
	h.Local = found
	r, _ := found.(*Resource)
	if d, ok := found.(*dealer); ok {
		r = d.Resource
	}
	if r == nil || r.token != p.GetHashCode() {
		return dataset.Spec{}, h, status.Errorf(status.NotFound, "Resource %s/%s/%s does not exist.", h.Container, h.Name, kind)
	}
	return r.spec, h, nil
}

// checkStated compares types and shapes, if they are stated, with an iterator's.
func checkStated(types []tensor.DType, list []shapes.PartialShape, got dataset.Spec) error {
	if len(types) == 0 {
		types = got.Types
	}
	if len(list) == 0 {
		list = got.Shapes
	}
	return dataset.Spec{Types: types, Shapes: list}.Check(got)
}

// What a checkpoint of an iterator does about state outside the iterator: options.ExternalStatePolicy.
const (
	externalWarns = iota
	externalIgnored
	externalFails
)

// newSerialize returns the kernel that saves an iterator's position.
func newSerialize(c *kernels.Construction) (any, error) {
	s := dataset.SettingsOf(c)
	policy := s.Int("external_state_policy")
	return dataset.Waiting(func(ctx *kernels.Context) error {
		r, err := iteratorAt(ctx, 0)
		if err != nil {
			return err
		}
		state, err := r.save(ctx, func(d *dataset.Dataset) error {
			err := d.External()
			switch {
			case err == nil || policy == externalIgnored:
				return nil
			case policy == externalWarns && status.CodeOf(err) == status.FailedPrecondition:
				if ctx.Step.Log != nil {
					ctx.Step.Log.Warn("a state that is not the iterator's is not saved", "iterator", r.name, "error", err)
				}
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
		out, err := ctx.Allocate(0, tensor.Variant, tensor.Shape{1})
		if err != nil {
			state.Release()
			return err
		}
		out.Variants()[0] = state
		return nil
	}), s.Err()
}

// newDeserialize returns the kernel that moves an iterator to its saved position.
func newDeserialize(*kernels.Construction) (any, error) { return dataset.Waiting(deserialize), nil }

// deserialize moves an iterator to its saved position.
func deserialize(ctx *kernels.Context) error {
	r, err := iteratorAt(ctx, 0)
	if err != nil {
		return err
	}
	t := ctx.Input(1)
	if t.DType() != tensor.Variant || t.Rank() != 1 || t.Len() != 1 {
		return status.InvalidArgumentf("The saved state of an iterator must be a vector of one variant, got %v%v", t.DType(), t.Shape())
	}
	s, ok := t.Variants()[0].(*dataset.State)
	if !ok {
		return status.Internalf("Cannot initialize an iterator from tensor %T. Expected a variant tensor of type IteratorStateVariant", t.Variants()[0])
	}
	return r.restore(ctx, s)
}

// iteratorDevice outputs the name of an iterator's device.
func iteratorDevice(ctx *kernels.Context) error {
	h, err := ctx.Handle(0)
	if err == nil {
		ctx.SetOutput(0, tensor.FromScalar(h.Device))
	}
	return err
}
