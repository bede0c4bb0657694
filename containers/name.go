package containers

import (
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
)

const stepPrefix = "__per_step_"

// StepName returns the name of the container for state that ends with a step. No client can name it.
func StepName(step int64) string {
	var name [len(stepPrefix) + 20]byte
	return string(strconv.AppendInt(append(name[:0], stepPrefix...), step, 10))
}

// IsStepName reports whether name is that of a step's container.
func IsStepName(name string) bool { return strings.HasPrefix(name, stepPrefix) }

// ValidName returns INVALID_ARGUMENT if a client may not give a container this name. A valid name is a letter, digit or dot, followed by
// any number of these, dashes, slashes and (beyond TensorFlow's grammar, ContainerInfo::Init) underscores. The empty name is valid: it
// stands for the default container.
func ValidName(name string) error {
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.':
		case i > 0 && (c == '-' || c == '/' || c == '_'):
		default:
			return status.InvalidArgumentf("container contains invalid characters: %s", name)
		}
	}
	return nil
}

// containerName returns the name of a container's actor: container/, the device, the container's name and a number.
func containerName(device, container string, number uint64) string {
	return "container" + device + "/" + container + "#" + strconv.FormatUint(number, 10)
}
