"""The areas in which programs are drawn, by name."""
import area_references
import area_steps
import area_tasks
import flow  # pylint: disable=unused-import; these register the statements that areas draw
import pure  # pylint: disable=unused-import
import state  # pylint: disable=unused-import

AREAS = {"steps": area_steps.make, "tasks": area_tasks.make, "references": area_references.make}
