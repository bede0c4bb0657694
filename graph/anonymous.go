package graph

// AnonymousName is the shared_name with which TensorFlow requests a variable that is in no container and is destroyed with its last handle
// (ResourceHandle::ANONYMOUS_NAME).
const AnonymousName = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"

// anonymousTables maps the ops that make named tables to those that make tables which live as long as a handle to them.
var anonymousTables = map[string]string{
	"HashTableV2":                 "AnonymousHashTable",
	"MutableHashTableV2":          "AnonymousMutableHashTable",
	"MutableHashTableOfTensorsV2": "AnonymousMutableHashTableOfTensors",
	"MutableDenseHashTableV2":     "AnonymousMutableDenseHashTable",
}

// AnonymousTable returns the op that makes an anonymous table, reachable only by its handle, in place of an op that makes a named one; ok is
// false for other ops. The attributes are the same but for container, shared_name and use_node_name_sharing, which the named ones have.
func AnonymousTable(op string) (anonymous string, ok bool) {
	anonymous, ok = anonymousTables[op]
	return anonymous, ok
}

// MakesAnonymousTable reports whether an op makes an anonymous table.
func MakesAnonymousTable(op string) bool {
	for _, anonymous := range anonymousTables {
		if op == anonymous {
			return true
		}
	}
	return false
}
