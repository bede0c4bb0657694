package remote

import (
	"errors"
	"fmt"

	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/devices/cards"
	"github.com/troupe-run/troupe/devices/cuda"
	"github.com/troupe-run/troupe/devices/gpu"
	"github.com/troupe-run/troupe/graph/tensor"
)

// openGPUs opens the GPU devices that the server's config asks for, and logs them, or why there are none. host is the memory of the task's
// CPU. If a card cannot be opened, openGPUs closes the others and returns an error.
func (n *Node) openGPUs(c Config, host *tensor.Pool) ([]devices.Device, error) {
	if !cards.Wanted(c.GPUConfig) {
		return nil, cards.Check(c.GPUConfig)
	}
	if c.GPUs == nil {
		c.GPUs = gpu.Cards(cuda.Driver{})
	}
	found, why := c.GPUs.Cards()
	plans, notes, err := cards.Plan(c.GPUConfig, found)
	if err != nil {
		return nil, err
	}
	for _, note := range notes {
		n.Log().Info(note)
	}
	var opened []devices.Device
	for i, p := range plans {
		name := fmt.Sprintf("%s/device:GPU:%d", n.Self().Name(), i)
		d, err := c.GPUs.Open(p, devices.Place{Name: name, Job: c.Job, System: n.Port().System(), Host: host, Log: c.Log})
		if err != nil {
			return nil, errors.Join(err, closeAll(opened))
		}
		opened = append(opened, d)
		n.Log().Info("a GPU is used", "device", name, "memory", d.MemoryLimit(), "card", d.Description())
	}
	switch {
	case errors.Is(why, cuda.ErrWithout) && c.GPUConfig.GetDeviceCount()["GPU"] == 0:
		// Most builds have no CUDA, and most of their users ask for no GPU.
		n.Log().Debug("no GPU is used", "reason", why)
	case len(found) == 0:
		n.Log().Info("no GPU is used", "reason", why)
	case len(plans) == 0:
		n.Log().Info("no GPU is used", "reason", fmt.Sprintf("the config leaves none of %d cards", len(found)))
	}
	return opened, nil
}

func closeAll(all []devices.Device) error {
	var errs []error
	for _, d := range all {
		errs = append(errs, d.Resources().Close(), d.Close())
	}
	return errors.Join(errs...)
}
