package input_test

import (
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	_ "github.com/troupe-run/troupe/kernels/all"
	"github.com/troupe-run/troupe/kernels/internal/example/examplepb"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/protobuf/proto"
)

func TestInputOpsLikeTensorFlow(t *testing.T) {
	kt.LikeTensorFlow(t, "testdata/inputops.jsonl.gz", func(c *kt.Case) bool {
		if c.Code != status.OK {
			// Errors within JSON, zlib data and tensors have other texts than TensorFlow's.
			for _, known := range []string{"Error while parsing JSON:", "inflate() failed with error -3:", "Cannot parse tensor from proto:", "Failed to decompress zstd input:"} {
				if strings.HasPrefix(c.Err, known) {
					c.Err = known
				}
			}
		}
		if c.Op == "DecodeJSONExample" { // numbers may be packed or not
			for i, want := range c.Want {
				canonical, err := want.Clone(tensor.Host)
				if err != nil {
					t.Fatal(err)
				}
				for j, s := range want.Strings() {
					var e examplepb.Example
					if err := proto.Unmarshal([]byte(s), &e); err != nil {
						t.Fatal(err)
					}
					b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&e)
					if err != nil {
						t.Fatal(err)
					}
					canonical.Strings()[j] = string(b)
				}
				c.Want[i] = canonical
			}
		}
		return true
	})
}

// serializedList is TensorFlow's SerializeTensor of a list of three floats of which only the second is set: [_, 7.5, _].
const serializedList = "\x08\x15\x12\x00\"54\n\x16tensorflow::TensorList\x12\x0e\x02\x00\x02\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x1a\n\x08\x01\x12\x00*\x04\x00\x00\xf0@"

func TestVariantsAsMessages(t *testing.T) {
	d := kt.NewDevice(t)
	stack := func(list *tensor.Tensor) []kernels.Value {
		return d.Run(t, kt.Op{Type: "TensorListStack", Attrs: kt.Attrs{"element_dtype": tensor.Float32}, Outputs: 1}, list, kt.I32(kt.S(0)))
	}
	parse := func(serialized *tensor.Tensor) *tensor.Tensor {
		return d.Run(t, kt.Op{Type: "ParseTensor", Attrs: kt.Attrs{"out_type": tensor.Variant}, Outputs: 1}, serialized)[0].Tensor
	}
	list := parse(kt.Str(nil, serializedList))
	kt.Expect(t, stack(list.Retain()), kt.F32(kt.S(3), 0, 7.5, 0))
	// An optional that holds the list survives a round trip.
	optional := d.Run(t, kt.Op{Type: "OptionalFromValue", Outputs: 1}, list)[0].Tensor
	back := parse(d.Run(t, kt.Op{Type: "SerializeTensor", Outputs: 1}, optional)[0].Tensor)
	values := d.Run(t, kt.Op{Type: "OptionalGetValue", Attrs: kt.Attrs{"output_types": []tensor.DType{tensor.Variant}, "output_shapes": []tensor.Shape{{}}}, Outputs: 1}, back)
	kt.Expect(t, stack(values[0].Tensor), kt.F32(kt.S(3), 0, 7.5, 0))
	for _, broken := range []string{serializedList[:len(serializedList)-1], strings.Replace(serializedList, "\x0e\x02\x00\x02", "\x0e\x02\x00\x09", 1)} {
		kt.Fails(t, d, status.InvalidArgument, "", kt.Op{Type: "ParseTensor", Attrs: kt.Attrs{"out_type": tensor.Variant}}, kt.Str(nil, broken))
	}
	kt.Fails(t, d, status.InvalidArgument, "no such type is registered", kt.Op{Type: "ParseTensor", Attrs: kt.Attrs{"out_type": tensor.Variant}}, kt.Str(nil, strings.Replace(serializedList, "TensorList", "Something_", 1)))
}

func TestStringToUnsignedNumber(t *testing.T) {
	for _, c := range []struct {
		text string
		want uint64
		ok   bool
	}{{"1", 1, true}, {" 3 ", 3, true}, {"+4", 4, true}, {"-0", 0, false}, {"-7", 0, false}, {"0x10", 0, false}, {"", 0, false}} {
		for _, dtype := range []tensor.DType{tensor.Uint32, tensor.Uint64} {
			kase := kt.Case{Name: dtype.String() + "/" + c.text, Op: "StringToNumber", Attrs: kt.Attrs{"out_type": dtype}, Inputs: []any{kt.Str(nil, c.text)}}
			switch {
			case !c.ok:
				kase.Code, kase.Err = status.InvalidArgument, "StringToNumberOp could not correctly convert string: "+c.text
			case dtype == tensor.Uint32:
				kase.Want = []*tensor.Tensor{tensor.Scalar(dtype, uint32(c.want))}
			default:
				kase.Want = []*tensor.Tensor{tensor.Scalar(dtype, c.want)}
			}
			kt.Check(t, kase)
		}
	}
}
