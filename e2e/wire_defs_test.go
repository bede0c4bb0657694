package e2e

import (
	opdefpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
)

// signature declares a function of one float that gives one.
func signature(name string) *opdefpb.OpDef {
	arg := func(n string) []*opdefpb.OpDef_ArgDef {
		return []*opdefpb.OpDef_ArgDef{{Name: n, Type: typespb.DataType_DT_FLOAT}}
	}
	return &opdefpb.OpDef{Name: name, InputArg: arg("x"), OutputArg: arg("y")}
}

func boolean(v bool) *tensorpb.TensorProto {
	return &tensorpb.TensorProto{Dtype: typespb.DataType_DT_BOOL, TensorShape: &shapepb.TensorShapeProto{}, BoolVal: []bool{v}}
}

func seedTensors() []*tensorpb.TensorProto {
	return []*tensorpb.TensorProto{{Dtype: typespb.DataType_DT_FLOAT, TensorContent: []byte{0, 0, 128, 63},
		TensorShape: &shapepb.TensorShapeProto{Dim: []*shapepb.TensorShapeProto_Dim{{Size: 1}}}}}
}
