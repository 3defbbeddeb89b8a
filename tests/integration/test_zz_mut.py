import pytest, hypothesis
import tests.integration.test_ledger_property as p
from hypothesis import settings, HealthCheck, Phase
from celeriac.ledger.dialects import postgres as sql
M={
 "claim-fence": ("claim","AND l.fence = a.fence\n","\n"),
 "claim-expiry": ("claim","AND (l.expires_at IS NULL OR l.expires_at > {now})",""),
 "claim-alive": ("claim","AND ended_at IS NULL",""),
 "end-fence": ("end","AND l.fence = a.fence",""),
 "move-fence": ("move","ON a.job_id = l.job_id AND a.fence = l.fence","ON a.job_id = l.job_id"),
 "revive-fence": ("revive","fence = fence + 1","fence = fence"),
 "revive-outcome": ("revive","AND outcome = 'DEAD_LETTER'",""),
 "stage-prio": ("stage","generate_series(10, 0, -1)","generate_series(0, 10, 1)"),
 "stage-term": ("stage","AND term = %(term)s::bigint",""),
 "close-outcome":("close","AND outcome = 'DEAD_LETTER'",""),
}
@pytest.mark.parametrize("m",M)
@pytest.mark.django_db
def test_mut(m, monkeypatch):
    name,a,b=M[m]
    orig=getattr(sql,name)
    def f(now,*r):
        t=orig(now,*r); a2=a.replace("{now}",now)
        assert a2 in t,(m,)
        return t.replace(a2,b)
    monkeypatch.setattr(sql,name,f)
    with pytest.raises(BaseException) as e:
        p.run_state_machine_as_test(hypothesis.seed(7)(type("L",(p.Ledger,),{})), settings=settings(max_examples=60, stateful_step_count=60, deadline=None, database=None, phases=[Phase.generate],suppress_health_check=list(HealthCheck)))
    assert e.type is not hypothesis.errors.Flaky
    print(m, e.type, str(e.value)[:100])
