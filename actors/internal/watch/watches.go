package watch

import (
	"strconv"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
)

// everything matches all nodes in a watch, anySlot all outputs of a node.
const (
	everything = "*"
	anySlot    = -1
)

// place is the node and output that a watch names.
type place struct {
	node string
	slot int32
}

// list finds the watch of a tensor.
type list map[place]*corepb.DebugTensorWatch

// newList returns the list of watches; of several for the same place, the last one counts.
func newList(watches []*corepb.DebugTensorWatch) (list, error) {
	l := list{}
	for _, w := range watches {
		if w.OutputSlot < anySlot {
			return nil, status.InvalidArgumentf("The watch of node %s has output slot %d: it must be -1, for all outputs, or greater", w.NodeName, w.OutputSlot)
		}
		l[place{w.NodeName, w.OutputSlot}] = w
	}
	return l, nil
}

// of returns the watch that matches a tensor most closely, or nil.
func (l list) of(node string, slot int32) *corepb.DebugTensorWatch {
	for _, p := range []place{{node, slot}, {node, anySlot}, {everything, slot}, {everything, anySlot}} {
		if w := l[p]; w != nil {
			return w
		}
	}
	return nil
}

// URLs returns the distinct debug URLs of watches, in order of first appearance.
func URLs(watches []*corepb.DebugTensorWatch) []string {
	var urls []string
	seen := map[string]bool{}
	for _, w := range watches {
		for _, url := range w.DebugUrls {
			if !seen[url] {
				seen[url] = true
				urls = append(urls, url)
			}
		}
	}
	return urls
}

// parseOp parses a debug op of a watch: "DebugNumericSummary", or with attributes "DebugNumericSummary(lower_bound=-1.5;
// mute_if_healthy=true)".
func parseOp(text string) (op string, attrs map[string]*attrpb.AttrValue, err error) {
	op, rest, found := strings.Cut(strings.TrimSpace(text), "(")
	def, err := graph.LookupOp(op)
	if err != nil || !strings.HasPrefix(op, "Debug") {
		return "", nil, status.InvalidArgumentf("A watch names the debug op %q, which does not exist", text)
	}
	if !found {
		return op, nil, nil
	}
	rest, closed := strings.CutSuffix(rest, ")")
	if !closed {
		return "", nil, status.InvalidArgumentf("Malformed debug op name %q", text)
	}
	attrs = map[string]*attrpb.AttrValue{}
	for pair := range strings.SplitSeq(rest, ";") {
		key, value, ok := strings.Cut(pair, "=")
		if key, value = strings.TrimSpace(key), strings.TrimSpace(value); !ok || key == "" || value == "" || attrs[key] != nil {
			return "", nil, status.InvalidArgumentf("Malformed attributes in debug op name %q", text)
		}
		for _, a := range def.Attr {
			if a.Name == key {
				attrs[key] = attrOf(a.Type, value)
			}
		}
		if attrs[key] == nil {
			return "", nil, status.InvalidArgumentf("The debug op %s has no attribute %s that can be %q", op, key, value)
		}
	}
	return op, attrs, nil
}

// attrOf parses the value of an attribute. It returns nil if the value does not have the type.
func attrOf(kind, text string) *attrpb.AttrValue {
	switch kind {
	case "string":
		return stringAttr(text)
	case "int":
		if v, err := strconv.ParseInt(text, 10, 64); err == nil {
			return &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: v}}
		}
	case "float":
		if v, err := strconv.ParseFloat(text, 32); err == nil {
			return &attrpb.AttrValue{Value: &attrpb.AttrValue_F{F: float32(v)}}
		}
	case "bool":
		if v, err := strconv.ParseBool(strings.ToLower(text)); err == nil {
			return &attrpb.AttrValue{Value: &attrpb.AttrValue_B{B: v}}
		}
	}
	return nil
}

func stringAttr(s string) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte(s)}}
}

func stringsAttr(all []string) *attrpb.AttrValue {
	list := &attrpb.AttrValue_ListValue{}
	for _, s := range all {
		list.S = append(list.S, []byte(s))
	}
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: list}}
}
