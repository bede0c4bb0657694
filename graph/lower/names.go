package lower

import (
	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/tensor"
)

// merger fills in the parts of device requests that a body's nodes leave open, from the caller's device.
type merger struct {
	caller string
	spec   place.Spec
	known  map[string]string
}

func newMerger(caller string) (*merger, error) {
	spec, err := place.Parse(caller)
	return &merger{caller, spec, map[string]string{"": caller}}, err
}

// merge returns the device for a node that requests asked.
func (m *merger) merge(asked string) (string, error) {
	if d, ok := m.known[asked]; ok {
		return d, nil
	}
	spec, err := place.Parse(asked)
	if err != nil {
		return "", err
	}
	base := m.spec
	if spec.Job != "" && spec.Job != base.Job || spec.Task >= 0 && spec.Task != base.Task {
		base = base.OnTask() // Another task need not have the caller's kind of device.
	}
	if spec.Type != "" && spec.Type != base.Type {
		base.Index = -1
	}
	d := base.Override(spec).String()
	m.known[asked] = d
	return d, nil
}

// inherits reports whether a node that requested a device, and got another, got a GPU that it did not request.
func (m *merger) inherits(asked, got string) bool {
	if m.spec.Type != "GPU" || asked == got {
		return false
	}
	spec, err := place.Parse(asked)
	return err == nil && spec.Type == ""
}

func stringAttr(s string) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte(s)}}
}

func intAttr(i int64) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: i}}
}

func boolAttr(b bool) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_B{B: b}}
}

func typeAttr(t tensor.DType) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: t.Proto()}}
}
