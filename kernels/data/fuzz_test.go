package data_test

import (
	"testing"

	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	dt "github.com/troupe-run/troupe/kernels/data/internal/datatest"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/protobuf/proto"
)

// serialized returns the graph of each pipeline that has one.
func serialized(f *testing.F) [][]byte {
	var all [][]byte
	d := kt.NewDevice(f)
	dt.FunctionDevice = d
	for _, c := range pipelines {
		p := c.make(dt.NewPipe(d))
		if p.Err != nil {
			f.Fatal(p.Err)
		}
		out, err := d.Try(kt.Op{Type: "DatasetToGraphV2", Attrs: kt.Attrs{"external_state_policy": int64(0), "strip_device_assignment": false}, Functions: dt.Functions}, p.Now)
		if err != nil {
			continue // it uses a resource
		}
		all = append(all, []byte(out[0].Tensor.Strings()[0]))
		out[0].Release()
	}
	return all
}

// FuzzDatasetFromGraph checks that any input as the graph of a dataset yields a dataset or an error.
func FuzzDatasetFromGraph(f *testing.F) {
	for _, b := range serialized(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := kt.NewDevice(t)
		dt.FunctionDevice = d
		out, err := d.Try(kt.Op{Type: "DatasetFromGraph", Functions: dt.Functions}, kt.Str(nil, string(b)))
		if status.CodeOf(err) == status.Internal {
			t.Error(err)
		}
		for _, v := range out {
			v.Release()
		}
	})
}

// FuzzRestore checks that any input as the state of an iterator is rejected, or makes the iterator continue from some position.
func FuzzRestore(f *testing.F) {
	d := kt.NewDevice(f)
	dt.FunctionDevice = d
	for n, c := range pipelines {
		p := c.make(dt.NewPipe(d))
		it := p.Iterate(f)
		it.Rest(2)
		saved := it.Save()
		m, err := saved.Tensor.Proto()
		if err != nil {
			f.Fatal(err)
		}
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(n, b)
		saved.Release()
		it.Close()
		p.Now.Release()
	}
	f.Fuzz(func(t *testing.T, n int, b []byte) {
		var m tensorpb.TensorProto
		if proto.Unmarshal(b, &m) != nil || n < 0 || n >= len(pipelines) {
			return
		}
		d := kt.NewDevice(t)
		dt.FunctionDevice = d
		state, err := tensor.FromTensorProto(&m, d.Pool())
		if err != nil {
			return
		}
		defer state.Release()
		p := pipelines[n].make(dt.NewPipe(d))
		it := p.Iterate(t)
		defer p.Now.Release()
		defer it.Close()
		if err := it.Restore(kernels.Value{Tensor: state}); err == nil {
			it.Rest(5)
		}
	})
}
