package lookup

import (
	"github.com/troupe-run/troupe/containers/table"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
)

// tableAt returns the table whose handle is input 0.
func tableAt(ctx *kernels.Context) (table.Table, error) {
	t, err := kernels.ResourceAt[table.Table](ctx, 0, table.ResourceKind)
	if err != nil {
		return nil, err
	}
	if t.Deleted() {
		return nil, status.Errorf(status.NotFound, "The lookup table that is input 0 of %s was deleted.", ctx.Node.Op)
	}
	return t, nil
}

// tableFor is tableAt for an op that takes keys, takes values if values is set, and outputs values if found is set. The node's types must
// match the table's.
func tableFor(ctx *kernels.Context, values, found bool) (table.Table, error) {
	t, err := tableAt(ctx)
	if err != nil {
		return nil, err
	}
	handle := tensor.Resource
	if ctx.Ref(0) != nil {
		handle = tensor.String.Ref()
	}
	have, haveOut := []tensor.DType{handle}, []tensor.DType(nil)
	for i := 1; i < len(ctx.Inputs); i++ {
		have = append(have, ctx.Input(i).DType())
	}
	want, wantOut := []tensor.DType{handle, t.Key().DType}, []tensor.DType(nil)
	if values {
		want = append(want, t.Value().DType)
	}
	if found {
		haveOut, wantOut = ctx.Node.OutTypes, []tensor.DType{t.Value().DType}
	}
	if h, w := dtypes.TypeNames(have)+"->"+dtypes.TypeNames(haveOut), dtypes.TypeNames(want)+"->"+dtypes.TypeNames(wantOut); h != w {
		return nil, status.InvalidArgumentf("Signature mismatch, have: %s expected: %s", h, w)
	}
	return t, nil
}

func lookupFind(ctx *kernels.Context) error {
	t, err := tableFor(ctx, true, true)
	if err != nil {
		return err
	}
	return t.Find(ctx.Input(1), ctx.Input(2), func(dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
		return ctx.Allocate(0, dtype, shape)
	})
}

func lookupInsert(ctx *kernels.Context) error {
	t, err := tableFor(ctx, true, false)
	if err != nil {
		return err
	}
	return t.Insert(ctx.Changes(), ctx.Input(1), ctx.Input(2))
}

func lookupImport(ctx *kernels.Context) error {
	t, err := tableFor(ctx, true, false)
	if err != nil {
		return err
	}
	return t.Import(ctx.Changes(), ctx.Input(1), ctx.Input(2))
}

func lookupRemove(ctx *kernels.Context) error {
	t, err := tableFor(ctx, false, false)
	if err != nil {
		return err
	}
	return t.Remove(ctx.Changes(), ctx.Input(1))
}

func lookupSize(ctx *kernels.Context) error {
	t, err := tableAt(ctx)
	if err == nil {
		ctx.SetOutput(0, tensor.Scalar(tensor.Int64, int64(t.Len())))
	}
	return err
}

func lookupExport(ctx *kernels.Context) error {
	t, err := tableAt(ctx)
	if err != nil {
		return err
	}
	have := []tensor.DType{t.Key().DType, t.Value().DType}
	if want := dtypes.TypeNames(ctx.Node.OutTypes); dtypes.TypeNames(have) != want {
		return status.InvalidArgumentf("Signature mismatch, have: %s expected: %s", want, dtypes.TypeNames(have))
	}
	keys, values, err := t.Export(ctx.Device.Pool())
	if err != nil {
		return err
	}
	ctx.SetOutput(0, keys)
	ctx.SetOutput(1, values)
	return nil
}

// initializableAt returns the table at input 0, which must be one that is filled once.
func initializableAt(ctx *kernels.Context, values bool) (table.Initializable, error) {
	t, err := tableAt(ctx)
	if err != nil {
		return nil, err
	}
	if a, ok := t.(*table.Anonymous); ok {
		t = a.Table
	}
	i, ok := t.(table.Initializable)
	if !ok {
		return nil, status.InvalidArgumentf("Table %s is not initializable", resourceName(ctx, 0))
	}
	if values {
		_, err = tableFor(ctx, true, false)
	}
	return i, err
}

// resourceName returns the container and name of the resource whose handle is input i.
func resourceName(ctx *kernels.Context, i int) string {
	if ref := ctx.Ref(i); ref != nil {
		if t := ref.Read(); t != nil {
			defer t.Release()
			if t.DType() == tensor.String && t.Len() == 2 {
				return t.Strings()[0] + " " + t.Strings()[1]
			}
		}
		return ""
	}
	h, err := ctx.Handle(i)
	if err != nil {
		return ""
	}
	return h.Container + " " + h.Name
}

func initializeTable(ctx *kernels.Context) error {
	t, err := initializableAt(ctx, true)
	if err != nil {
		return err
	}
	keys, values := ctx.Input(1), ctx.Input(2)
	switch {
	case keys.Rank() != 1:
		return status.InvalidArgumentf("Keys must be a vector, but received shape%v", keys.Shape())
	case values.Rank() != 1:
		return status.InvalidArgumentf("Values must be a vector, but received shape%v", values.Shape())
	case keys.Len() != values.Len():
		return status.InvalidArgumentf("Keys and values must have the same size %d vs %d", keys.Len(), values.Len())
	}
	return t.Fill(ctx.Changes(), keys, values, ctx.Step.Origin)
}
