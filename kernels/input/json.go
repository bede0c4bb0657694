package input

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/example/examplepb"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// decodeJSONExample converts Examples from JSON to the wire format.
func decodeJSONExample(ctx *kernels.Context) error {
	in := ctx.Input(0)
	out, err := ctx.Allocate(0, tensor.String, in.Shape())
	if err != nil {
		return err
	}
	for i, s := range in.Strings() {
		var e examplepb.Example
		if err := protojson.Unmarshal([]byte(s), &e); err != nil {
			return status.InvalidArgumentf("Error while parsing JSON: %v", err)
		}
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&e)
		if err != nil {
			return status.InvalidArgumentf("Error while parsing JSON: %v", err)
		}
		out.Strings()[i] = string(b)
	}
	return nil
}
