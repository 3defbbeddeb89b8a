"""The only place that imports Celery and kombu: seams on one side, the steps on the other."""
