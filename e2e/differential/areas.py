"""The areas in which programs are drawn, by name."""
import area_references
import area_steps
import area_tasks

AREAS = {"steps": area_steps.make, "tasks": area_tasks.make, "references": area_references.make}
